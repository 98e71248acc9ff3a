"""Tables of observations: comments, and nodes whose names begin with #."""

from graphrf.cli.options.tables import read_table


def test_names_that_begin_with_a_marker_are_no_comments(tmp_path):
    path = tmp_path / "seen.csv"
    path.write_text("# readings\n#by ann\n#beach,1\nsun,2\n#note,3\n# end\n")
    table = read_table(path, {"#beach", "sun"}.__contains__)
    assert (table.rows, table.lines) == ([["#beach", "1"], ["sun", "2"], ["#note", "3"]], [3, 4, 5])
