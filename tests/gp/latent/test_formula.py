"""Formulas: the design of a fit, the same for other data, and refusals with the spelling."""

import re
from decimal import Decimal

import numpy as np
import pytest

from graphrf.gp.latent.design import Design
from graphrf.gp.latent.formula import for_rows, read

pandas = pytest.importorskip("pandas")
formulaic = pytest.importorskip("formulaic")

N = 40
RNG = np.random.default_rng(3)


def frame(n=N):
    rng = np.random.default_rng(n)
    return pandas.DataFrame(
        {
            "y": rng.standard_normal(n),
            "x": rng.uniform(0.5, 4, n),
            "z": rng.standard_normal(n),
            "k": rng.permutation(np.resize(["low", "mid", "high"], n)),
            "j": rng.permutation(np.resize([3, 1, 2, 10], n)),
            "b": rng.permutation(np.resize([True, False], n)),
            "a b": rng.standard_normal(n),
            "c": pandas.Categorical(
                rng.permutation(np.resize(list("uvw"), n)), categories=["w", "u", "v"]
            ),
        }
    )


EFFECTS = [
    "1",
    "0 + x",
    "x + z",
    "x*z",
    "x:z + z",
    "k",
    "0 + k",
    "k - 1",
    "k*x",
    "k:x",
    "k/x",
    "C(j)",
    "C(j)*k",
    "c",
    "b*x",
    "C(np.floor(x + z))",
    "C(k, contr.sum)",
    "C(k, Treatment('mid'))",
    "C(k, contr.helmert)*x",
    "C(np.floor(x))",
    "(x + z + k)**2",
    "np.log(x)",
    "log(x) + I(x**2)",
    "I(x > 2)",
    "`a b` + I(`a b`**2)",
    "scale(x)",
    "center(x) + z",
    "poly(x, 3)",
    "bs(x, df=5)",
    "bs(x, df=5, include_intercept=True)",
    "bs(x, knots=[1, 2], degree=2)",
    "bs(np.log(x), df=4)*k",
    "0 + cr(x, df=4)",
    "cr(x, df=4, constraints='center')",
    "cc(x, df=4, constraints='center')",
    "2:z + x %in% k",
]


@pytest.mark.parametrize("effects", EFFECTS)
def test_the_design_is_that_of_formulaic_in_the_fit_and_for_other_rows(effects):
    data = frame()
    made = formulaic.model_matrix(f"y ~ {effects}", data).rhs
    design = read(f"y ~ {effects}", data).design
    assert design.names == tuple(made.columns)
    np.testing.assert_allclose(design.matrix, made, atol=1e-10)
    inner = data.iloc[np.argsort(data["x"])[5:-5]][::-1]  # within the range of splines
    np.testing.assert_allclose(
        design.rows(inner), made.model_spec.get_model_matrix(inner), atol=1e-10
    )
    again = Design.decoded(design.encoded(), design.matrix)
    np.testing.assert_array_equal(again.rows(inner), design.rows(inner))


@pytest.mark.parametrize(
    "spline",
    [
        "cr(x, df=4, constraints='center')",
        "bs(x, df=4, extrapolation='extend')",
        "bs(x, df=4, extrapolation='clip')",
        "bs(x, df=4, extrapolation='zero')",
        "cc(x, df=4, constraints='center')",
        "poly(x, 2)",
        "scale(x)",
    ],
)
def test_splines_go_on_beyond_their_range_as_those_of_formulaic(spline):
    data = frame()
    made = formulaic.model_matrix(f"y ~ {spline}", data).rhs
    there = data.iloc[:4].assign(x=[-1.0, 0.0, 6.0, 9.0])
    expected = made.model_spec.get_model_matrix(there)
    np.testing.assert_allclose(read(f"y ~ {spline}", data).design.rows(there), expected, atol=1e-9)


def test_splines_refuse_values_beyond_their_range_unless_told_otherwise():
    design = read("y ~ bs(x, df=4)", frame()).design
    with pytest.raises(
        ValueError, match=r"does not fit 'bs\(x, df=4\)' .* 1 values outside .*extrapolation"
    ):
        design.rows(frame().iloc[:2].assign(x=[1.0, 50.0]))


def test_rows_are_evaluated_by_the_fit_and_not_by_themselves():
    data = frame()
    for effects in ("scale(x)", "C(j)", "bs(x, df=4)", "k*poly(x, 2)"):
        design = read(f"y ~ {effects}", data).design
        one = design.rows(data.iloc[[7]])
        np.testing.assert_array_equal(one[0], design.matrix[7])


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ x + (1|k)", r"has groups, '\|', .*Groups"),
        ("y ~ x | k", "has groups"),
        ("y ~ s(x)", r"has s\(...\) .* bs\(x, df=4\)"),
        ("y ~ offset(log(x))", "exposure='E'"),
        ("y ~ f(k)", "Groups"),
        ("y ~ factor(k)", r"write C\(g\)"),
        ("y ~ as.factor(k)", r"write C\(g\)"),
        ("cbind(y, x) ~ 1", "trials='n'"),
        ("y + x ~ 1", "must have one response"),
        ("1 ~ x", "must have a column as response"),
        ("~ x", "must have a response and fixed effects"),
        ("y ~", "must have a response and fixed effects"),
        ("y = x", "must be like 'cases ~ 1"),
        ("y ~ x ~ z", "must be like 'cases ~ 1"),
        ("y ~ .", "for all columns"),
        ("y ~ x^2", r"stands for 'x' alone.* I\(x\*\*2\)"),
        ("y ~ z + x**2", r"stands for 'x' alone"),
        (
            "y ~ log(x)^2",
            r"has 'log\(x\)\^2', which stands for 'log\(x\)' alone.* I\(log\(x\)\*\*2\)",
        ),
        ("y ~ z + `a b` ** 2", r"has '`a b` \*\* 2', which stands for '`a b`' alone"),
        ("y ~ (x + z)^2 + (x)^2", r"has '\(x\)\^2'"),
        ("y ~ I(x^2)", r"the power of a number is x\*\*2"),
        ("y ~ x > 2", r"write it as I\(x > 1\)"),
        ("y ~ a b", "cannot be read"),
        ("y ~ a.b", "backticks|has no column|cannot be read|an expression is made of"),
        ("y ~ lag(x)", "a column of the frame, computed before"),
        ("y ~ sqr(x)", r"no function of formulas; did you mean .*'sqrt'"),
        ("y ~ np.where(x > 1, 1, 0)", "no function of formulas"),
        ("y ~ x.map(str)", "no function of formulas"),
        ("y ~ bs(x, df=q)", "whose settings must be numbers or text"),
        ("y ~ bs(x, 5, None, 3)", "name its settings"),
        ("poly(y, 2) ~ x", "must have one response, got 2 columns"),
        ("y ~ bs(x, df=1)", "which cannot be had: .*df"),
        ("y ~ bs(k, df=4)", "must hold numbers where the formula computes"),
        (
            "y ~ nothing",
            "`frame` has no column 'nothing', which the formula reads; it has 'y', 'x'",
        ),
        ("y ~ X", "did you mean 'x'|has no column 'X'"),
        ("k ~ x", "must hold numbers where the formula computes"),
        ("y ~ cr(x, df=4)", "combination of the others"),
    ],
)
def test_other_spellings_are_refused_with_that_of_this_library(formula, message):
    with pytest.raises((ValueError, TypeError), match=message):
        read(formula, frame())


@pytest.mark.parametrize("kind", ["floats", "decimals", "integers", "Float64", "float16"])
def test_numbers_are_numbers_in_any_column(kind):
    data = frame()
    x = np.round(data["x"].to_numpy() * 4) / 4
    columns = {
        "floats": pandas.Series(x.tolist(), dtype=object),
        "decimals": [Decimal(str(each)) for each in x],
        "integers": pandas.Series((4 * x).astype(int).tolist(), dtype=object),
        "Float64": pandas.array(x, dtype="Float64"),
        "float16": x.astype("float16"),
    }
    made = read("y ~ x", data.assign(x=columns[kind])).design
    assert made.names == ("Intercept", "x")
    np.testing.assert_allclose(made.matrix[:, 1], 4 * x if kind == "integers" else x)


def test_text_that_reads_as_numbers_is_warned_of():
    data = frame()
    data["x 1"] = [f"{number},5" for number in data["j"]]
    with pytest.warns(UserWarning, match="'x 1' holds text that reads as numbers") as caught:
        read("y ~ `x 1`", data)
    ways_out = re.findall(r"frame\['x 1'\] = [^;]*", str(caught[0].message))
    assert len(ways_out) == 2
    for way_out, n_effects in zip(ways_out, (2, 4), strict=True):
        exec(way_out, {"pandas": pandas, "frame": (other := data.copy())})
        assert len(read("y ~ `x 1`", other).design.names) == n_effects


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (
            pandas.Timestamp("2024-01-01") + pandas.to_timedelta(np.arange(N), "D"),
            "got dates or spans of time",
        ),
        (pandas.to_timedelta(np.arange(N), "D"), "got dates or spans of time"),
        (np.arange(N) * 1j, "got complex numbers"),
        ([1.0, "a"] * (N // 2), "got float 1.0 in row 0 and text in others|numbers or text"),
        (
            np.where(np.arange(N) == 3, np.inf, 1.0 * np.arange(N)),
            "no finite value in 1 of 40 rows, the first 3",
        ),
        (
            np.where(np.arange(N) == 4, np.nan, 1.0 * np.arange(N)),
            "no value in 1 of 40 rows, the first of them 4",
        ),
        (
            pandas.Categorical(["a", "b"] * (N // 2), categories=["a", "b", "c"]),
            "category 'c' in no row",
        ),
    ],
    ids=["dates", "spans", "complex", "mixed", "inf", "nan", "unused"],
)
def test_columns_that_are_no_numbers_are_refused(values, error):
    with pytest.raises((TypeError, ValueError), match=error):
        read("y ~ x", frame().assign(x=values))


def test_values_that_a_function_loses_are_refused_with_the_label_of_the_row():
    data = frame().set_axis([f"r{k}" for k in range(N)])
    design = read("y ~ np.log(x)", data).design
    for bad in (0.0, -1.0, np.inf):
        with pytest.raises(
            ValueError, match=r"gives 'np.log\(x\)' .* the first 2 \(labelled 'r2'\)"
        ):
            design.rows(data.assign(x=np.where(np.arange(N) == 2, bad, data["x"])))


def test_labels_that_the_fit_has_not_seen_are_refused():
    design = read("y ~ k + C(j) + b", frame()).design
    for change in ({"k": "other"}, {"j": 7}, {"j": "3"}, {"b": 2}):
        with pytest.raises(ValueError, match=r"which the fit has not seen|has other values"):
            design.rows(
                frame().astype(object).assign(**change)
                if "j" in change
                else frame().assign(**change)
            )
    np.testing.assert_array_equal(
        design.rows(frame().assign(j=frame()["j"].astype(float))), design.matrix
    )


def test_levels_that_an_expression_has_not_had_are_refused():
    design = read("y ~ C(floor(x + j))", frame()).design
    with pytest.raises(
        ValueError, match=r"has 100\.0 in 'C\(floor\(x \+ j\)\)', row 0, .* it knows [0-9., ]*$"
    ):
        design.rows(frame().assign(j=99, x=1.0))


def test_the_order_of_categories_is_that_of_the_fit():
    data = frame()
    design = read("y ~ c", data).design
    other = data.assign(c=pandas.Categorical(data["c"].astype(str)))
    np.testing.assert_array_equal(design.rows(other), design.matrix)


def test_two_columns_of_one_name_are_refused():
    data = frame()
    with pytest.raises(
        ValueError, match="`frame` has 2 columns named 'x', which the formula reads"
    ):
        read("y ~ x", pandas.concat([data, data[["x"]]], axis=1))


def test_values_for_rows_are_aligned_by_labels_or_refused():
    data = frame().set_axis(RNG.permutation(N))
    own = pandas.Series(np.arange(1.0, N + 1), index=data.index)
    for same in (own, own.sample(frac=1, random_state=1), dict(own), own.to_numpy()):
        np.testing.assert_array_equal(np.asarray(for_rows(data, "exposure", same)), own)
    for other in (own.set_axis(np.arange(100, 100 + N)), own.set_axis([f"x{k}" for k in range(N)])):
        with pytest.raises(ValueError, match="`exposure` has the labels"):
            for_rows(data, "exposure", other)
    with pytest.raises(
        ValueError, match="`frame` has no column 'X', which `exposure` reads; it has "
    ):
        for_rows(data, "exposure", "X")
