"""Wrong frames, formulas and terms."""

from __future__ import annotations

import graphrf as grf
from graphrf.gp import Covariate, Groups, Nodes, Steps
from tests.gp.wrong.shared import (
    FRAME,
    MATERN,
    NAMED,
    NUMBERED,
    by_year,
    of_districts_and_groups,
    of_terms,
    terms,
    wrong,
)

ZERO = FRAME["people"].where(FRAME.index != 3, 0.0).to_numpy()
FRAMES = {
    "no column of nodes": wrong(
        lambda: terms("cases ~ 1", Nodes(NAMED, grf.ICAR())).fit(FRAME),
        ValueError,
        *("`frame`", "no column 'node'", "it has 'district', 'year'"),
    ),
    "no column of the formula": wrong(
        lambda: of_terms().predict(FRAME.drop(columns="share")),
        ValueError,
        *("`frame`", "no column 'share'", "the formula", "it has 'district', 'year'"),
    ),
    "no column of a term": wrong(
        lambda: of_terms().predict(FRAME.drop(columns="year")),
        ValueError,
        *("`frame`", "no column 'year'", "the term of 'year'", "it has 'district', 'share'"),
    ),
    "no column of exposures": wrong(
        lambda: terms(exposure="Peopel").fit(FRAME),
        ValueError,
        *("`frame`", "no column 'Peopel'", "`exposure`", "it has 'district'", "'people'?"),
    ),
    "an exposure of 0": wrong(
        lambda: terms(exposure="people").fit(
            FRAME.set_index(FRAME.index + 100).assign(people=ZERO)
        ),
        ValueError,
        *("`exposure`", "got 0 in row 3 (labelled 103)", "1 of 24", "frame[frame['people'] > 0]"),
    ),
    "observations without exposures": wrong(
        lambda: of_terms().predict(FRAME.drop(columns="people"), return_std="observation"),
        ValueError,
        *("`frame`", "no column 'people'", "`exposure`"),
    ),
    "an offset in a formula": wrong(
        lambda: terms("cases ~ 1 + offset(log(people))").fit(FRAME),
        ValueError,
        *("`formula`", "offset(...)", "exposure='E'"),
    ),
    "groups in a formula": wrong(
        lambda: terms("cases ~ 1 + (1|district)").fit(FRAME),
        ValueError,
        *("`formula`", "(1|district)", "Groups('g')"),
    ),
    "a model of R-INLA": wrong(
        lambda: terms("cases ~ 1 + share + f(district, model='bym2', graph=g)").fit(FRAME),
        ValueError,
        *("`formula`", "f(...)", "terms=[Nodes(graph, BYM2(), by='district'), ...]"),
    ),
    "a random walk of R-INLA": wrong(
        lambda: terms('cases ~ share + f(year, scale.model = TRUE, model = "rw2")').fit(FRAME),
        ValueError,
        *("`formula`", "f(...)", "terms=[Steps('year', 'rw2'), ...]"),
    ),
    "groups of R-INLA": wrong(
        lambda: terms("cases ~ f(district, model='iid')").fit(FRAME),
        ValueError,
        *("`formula`", "f(...)", "terms=[Groups('district'), ...]"),
    ),
    "another model of R-INLA": wrong(
        lambda: terms("cases ~ f(district, model='z')").fit(FRAME),
        ValueError,
        *("`formula`", "f(...)", "terms=[Groups('g'), ...]"),
    ),
    "a misspelt function": wrong(
        lambda: terms("cases ~ 1 + lgo(share)").fit(FRAME),
        ValueError,
        *("`formula`", "lgo(...)", "did you mean 'log'?"),
    ),
    "a formula of one side": wrong(
        lambda: terms("cases").fit(FRAME), ValueError, "`formula`", "'cases'", "'cases ~ 1 + share'"
    ),
    "effects that are combinations": wrong(
        lambda: terms("cases ~ share + twice").fit(FRAME.assign(twice=2 * FRAME["share"])),
        ValueError,
        *("`formula`", "combination", "share, twice"),
    ),
    "an unseen category": wrong(
        lambda: by_year().predict(FRAME.assign(year=2030)),
        ValueError,
        *("`frame`", "2030 in 'year'", "it knows 2016, 2017, 2018, 2019", "Steps('year', ...)"),
    ),
    "rows without a response": wrong(
        lambda: terms().fit(FRAME.assign(cases=FRAME["cases"].where(FRAME["year"] < 2019))),
        ValueError,
        *("`cases`", "6 of 24 rows", "frame[frame['cases'].notna()]", "predict them after the fit"),
    ),
    "names of numbered nodes": wrong(
        lambda: terms("cases ~ 1", Nodes(NUMBERED, grf.ICAR(), by="district")).fit(FRAME),
        ValueError,
        *("`district`", "'Ayr', 'Bute', 'Clyde' and 3 more", "load_graph(frame.set_index('name'))"),
    ),
    "a misspelt district": wrong(
        lambda: of_terms().predict(FRAME.replace({"district": {"Bute": "Buet"}})),
        ValueError,
        *("`district`", "'Buet'", "did you mean 'Bute'?"),
    ),
    "a name with a space": wrong(
        lambda: terms().fit(FRAME.replace("Bute", "Bute ")),
        ValueError,
        *("`district`", "no such node", "mean 'Bute'?", "'Bute ' has a space at its end"),
    ),
    "names in capitals": wrong(
        lambda: terms().fit(FRAME.assign(district=FRAME["district"].str.upper())),
        ValueError,
        *("`district`", "'AYR', 'BUTE'", "no such nodes", "did you mean 'Ayr'?"),
    ),
    "years as text": wrong(
        lambda: terms().fit(FRAME.astype({"year": str})),
        TypeError,
        *("`year`", "'2016'", "pandas.to_datetime"),
    ),
    "text as a covariate": wrong(
        lambda: terms("cases ~ 1", Covariate("district") * Steps("year")).fit(FRAME),
        TypeError,
        *("`district`", "str 'Ayr'", "pandas.to_numeric"),
    ),
    "an array for a frame": wrong(
        lambda: terms().fit(FRAME.to_numpy()), TypeError, "`frame`", "an array", "pandas.DataFrame"
    ),
    "a misspelt label of a term": wrong(
        lambda: of_terms().effects("distrct"),
        ValueError,
        *("`term`", "'distrct'", "did you mean 'district'?"),
    ),
    "a label of two terms": wrong(
        lambda: of_districts_and_groups().effects("district"),
        ValueError,
        *("`term`", "the numbers 0, 1", "'district'"),
    ),
    "the number of no term": wrong(
        lambda: of_terms().effects(5), ValueError, "`term`", "[0, 1]", "got 5"
    ),
    "columns for names": wrong(
        lambda: Steps(FRAME["year"]), TypeError, "`by`", "the name of a column", "a Series"
    ),
    "groups by a column": wrong(
        lambda: Groups(FRAME["district"]), TypeError, "`by`", "the name of a column", "a Series"
    ),
    "nodes by a column": wrong(
        lambda: Nodes(NAMED, MATERN, by=FRAME["district"]), TypeError, "`by`", "a Series"
    ),
    "a column as a covariate": wrong(
        lambda: Covariate(FRAME["share"]), TypeError, "`by`", "the name of a column", "a Series"
    ),
    "a misspelt kind of steps": wrong(
        lambda: Steps("year", "rw3"), ValueError, "`kind`", "'rw3'", "did you mean 'rw2'"
    ),
    "a season without a length": wrong(
        lambda: Steps("month", "seasonal"), ValueError, "`period`", "got None"
    ),
    "a prior of another term": wrong(
        lambda: Nodes(NAMED, grf.BYM2(), prior={"lengthscale": (1, 2)}),
        ValueError,
        *("`prior`", "'lengthscale'", "sd, mixing"),
    ),
    "three terms": wrong(
        lambda: Steps("a") * Steps("b") * Steps("c"), TypeError, "`terms`", "in pairs", "Steps"
    ),
    "deviations of the linear predictor": wrong(
        lambda: of_terms().predict(return_std="observation", latent=True),
        ValueError,
        *("`return_std`", "set latent=False"),
    ),
}
