"""Tables of observations: comments, and nodes whose names begin with #; numbers."""

import pytest

from graphrf.cli.options.tables import read_table


def test_names_that_begin_with_a_marker_are_no_comments(tmp_path):
    path = tmp_path / "seen.csv"
    path.write_text("# readings\n#by ann\n#beach,1\nsun,2\n#note,3\n# end\n")
    table = read_table(path, {"#beach", "sun"}.__contains__)
    assert (table.rows, table.lines) == ([["#beach", "1"], ["sun", "2"], ["#note", "3"]], [3, 4, 5])


@pytest.mark.parametrize("cell", ["30,5", "1.230,5", "30 km/h"])
def test_numbers_in_other_forms_are_refused_with_the_way_out(tmp_path, cell):
    path = tmp_path / "seen.csv"
    path.write_text(f"node;speed\na;{cell}\nb;7\n")
    with pytest.raises(
        ValueError, match=r"line 2: the target must be .*write numbers with a decimal point"
    ):
        read_table(path).numbers(1, "target")


@pytest.mark.parametrize(
    ("mark", "cells", "suspect"),
    [
        (";", ["1.230", "1.231"], True),
        (";", ["12.300", "1.231"], True),
        (",", ["1.230", "1.231"], False),
        (";", ["1.230", "1.23"], False),
        (";", ["0.230", "1.231"], False),
    ],
)
def test_points_that_may_part_thousands_are_warned_of(tmp_path, mark, cells, suspect, recwarn):
    path = tmp_path / "seen.csv"
    path.write_text(
        "".join(
            f"{node}{mark}{cell}\n"
            for node, cell in zip(("node", "a", "b"), ("speed", *cells), strict=True)
        )
    )
    assert read_table(path).numbers(1, "target") == [float(cell) for cell in cells]
    assert len(recwarn) == suspect
