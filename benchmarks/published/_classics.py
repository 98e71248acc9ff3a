"""The small tables of the classics, and the figures that their sources print.

The tables and figures of BUGS are those of volume 1 of its examples as MultiBUGS ships them
(`Examples/*.odc`, commit ed6a62c), means and standard deviations of 20,000 draws (Seeds: 40,000).
The figures of lme4 are in its `tests/` (commit 32b5bfd: `testthat/test-glmer.R`, `elston.R`,
`lmer-1.R`), those of glmmTMB in its `tests/testthat/test-basics.R` (commit 73f6f34). Durbin and
Koopman's (2012; the UK drivers in Sec. 8.2) were read where other code quotes them, the Nile's
likelihood as KFAS has it; `classics.py` finds them again, the drivers' by dense algebra.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

# A mean or estimate, and its standard deviation where there is one.
Figures = Mapping[str, tuple[float, float | None]]


def seeds() -> pd.DataFrame:
    """Germination of seeds on 21 plates."""
    n = [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7]
    r = [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3]
    plate = np.arange(21)
    x2 = np.isin(plate, [*range(5, 11), *range(16, 21)])
    columns = {"r": r, "n": n, "x1": (plate > 10).astype(int), "x2": x2.astype(int)}
    return pd.DataFrame(columns).assign(plate=plate)


def salm() -> pd.DataFrame:
    """Revertant colonies of salmonella on three plates for each dose.

    The text of BUGS prints 69 for the third plate of dose 100, its data have 60, which the figures
    are of.
    """
    y = [15, 21, 29, 16, 18, 21, 16, 26, 33, 27, 41, 60, 33, 38, 41, 20, 27, 42]
    dose = np.repeat([0.0, 10.0, 33.0, 100.0, 333.0, 1000.0], 3)
    return pd.DataFrame({"y": y, "dose": dose, "plate": np.arange(18)})


def surgical() -> pd.DataFrame:
    """Deaths after heart surgery of babies in twelve hospitals."""
    n = [47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360]
    r = [0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24]
    return pd.DataFrame({"r": r, "n": n, "hospital": np.arange(12)})


def rats() -> pd.DataFrame:
    """Weights of 30 rats at five ages in days."""
    weights = [
        [151, 199, 246, 283, 320, 145, 199, 249, 293, 354, 147, 214, 263, 312, 328],
        [155, 200, 237, 272, 297, 135, 188, 230, 280, 323, 159, 210, 252, 298, 331],
        [141, 189, 231, 275, 305, 159, 201, 248, 297, 338, 177, 236, 285, 350, 376],
        [134, 182, 220, 260, 296, 160, 208, 261, 313, 352, 143, 188, 220, 273, 314],
        [154, 200, 244, 289, 325, 171, 221, 270, 326, 358, 163, 216, 242, 281, 312],
        [160, 207, 248, 288, 324, 142, 187, 234, 280, 316, 156, 203, 243, 283, 317],
        [157, 212, 259, 307, 336, 152, 203, 246, 286, 321, 154, 205, 253, 298, 334],
        [139, 190, 225, 267, 302, 146, 191, 229, 272, 302, 157, 211, 250, 285, 323],
        [132, 185, 237, 286, 331, 160, 207, 257, 303, 345, 169, 216, 261, 295, 333],
        [157, 205, 248, 289, 316, 137, 180, 219, 258, 291, 153, 200, 244, 286, 324],
    ]
    age = np.tile([8.0, 15.0, 22.0, 29.0, 36.0], 30)
    columns = {"weight": np.ravel(weights), "rat": np.repeat(np.arange(30), 5), "age": age}
    return pd.DataFrame(columns).assign(centred=age - 22.0)


def mice() -> pd.DataFrame:
    """Survival of 80 mice in weeks; a negative time is censored."""
    groups = {
        "irradiated": "12 1 21 25 11 26 27 30 13 12 21 20 23 25 23 29 35 -40 31 36",
        "vehicle": "32 27 23 12 18 -40 -40 38 29 30 -40 32 -40 -40 -40 -40 25 30 37 27",
        "test": "22 26 -10 28 19 15 12 35 35 10 22 18 -24 12 -40 -40 31 24 37 29",
        "positive": "27 18 22 13 18 29 28 -20 16 22 26 19 -29 -10 17 28 26 12 17 26",
    }
    t = np.array(" ".join(groups.values()).split(), dtype=float)
    return pd.DataFrame({"t": np.abs(t), "died": t > 0, "group": np.repeat([*groups], 20)})


BUGS: Mapping[str, Figures] = {
    "Seeds": {
        "alpha0": (-0.5484, 0.2143),
        "alpha1": (0.06001, 0.3478),
        "alpha2": (1.36, 0.3077),
        "alpha12": (-0.8343, 0.4845),
        "sigma": (0.3543, 0.1491),
    },
    "Epil": {
        "alpha0": (-1.288, 1.295),
        "Base": (0.8725, 0.1334),
        "Trt": (-0.9468, 0.4346),
        "BT": (0.3433, 0.2183),
        "Age": (0.4549, 0.3787),
        "V4": (-0.1039, 0.08718),
        "sigma.b": (0.3629, 0.04394),
        "sigma.b1": (0.4995, 0.07083),
    },
    "Salm": {
        "alpha": (2.169, 0.3622),
        "beta": (0.3112, 0.09932),
        "gamma": (-0.9711, 0.4455),
        "sigma": (0.2601, 0.08019),
    },
    "Surgical": {
        "p1": (0.05298, 0.01956),
        "p2": (0.1031, 0.02177),
        "p3": (0.07048, 0.01747),
        "p4": (0.05918, 0.007908),
        "p5": (0.05152, 0.01327),
        "p6": (0.06895, 0.01471),
        "p7": (0.0668, 0.01597),
        "p8": (0.1231, 0.0223),
        "p9": (0.0698, 0.01451),
        "p10": (0.0784, 0.01988),
        "p11": (0.1023, 0.01762),
        "p12": (0.06838, 0.01174),
    },
    "Rats": {"alpha0": (106.6, 3.66), "beta.c": (6.186, 0.1089), "sigma": (6.093, 0.4643)},
    "Mice": {
        "veh.control": (-1.135, 0.369),
        "test.sub": (-0.3474, 0.3421),
        "pos.control": (0.3228, 0.3439),
        "r": (2.951, 0.294),
    },
}
R: Mapping[str, Figures] = {
    "cbpp": {
        "intercept": (-1.39854982537216, None),
        "period 2": (-0.992335519118859, None),
        "period 3": (-1.12867532780426, None),
        "period 4": (-1.58030423764517, None),
        "sd": (0.642226809144453, None),
        "-2 log L": (184.05267459802, None),
    },
    "grouseticks": {
        "intercept": (11.3559080756861, None),
        "1996": (1.1804105508475, None),
        "1997": (-0.978704335712111, None),
        "height": (-0.0237607330254979, None),
        "sds": (0.541509425632023, None),
        "brood": (0.750034415832756, None),
        "place": (0.528723159081737, None),
        "-2 log L": (1780.5427072, None),
    },
    "sleepstudy": {
        "intercept": (251.405104848485, None),
        "slope": (10.467285959595, None),
        "variances": (584.247907378213, None),
        "slopes": (33.6332741779585, None),
    },
    "Owls": {"AutavauxTV": (-0.484, None)},
}
STATE_SPACE: Mapping[str, Figures] = {
    "Nile": {"noise": (15099, None), "level": (1469.1, None)},
    "log L": {"log L": (-632.5456, None)},
    "drivers": {
        "noise": (0.00341598, None),
        "level": (0.000935852, None),
        "season": (5.01096e-7, None),
    },
    "effects": {"petrol": (-0.29140, 0.09832), "law": (-0.23773, 0.04632)},
}
