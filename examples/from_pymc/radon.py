"""Radon in 919 houses of 85 counties: intercepts and slopes that vary by county, and correlate.

Radon comes from the soil, so that basements have more of it than first floors. Both levels differ
from county to county, with few measurements in most counties: they have a common distribution,
whose covariance matrix has an LKJ prior. The data and the model are those of Gelman and Hill, Data
Analysis Using Regression and Multilevel/Hierarchical Models (2007), section 13.1, whose fit by
`lmer` the table repeats. They measured the state of Minnesota in a survey of the Environmental
Protection Agency; see Price, Nero and Gelman, Health Physics 71 (1996).
"""

import csv
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from report import main, sample

FILE = Path(__file__).with_name("radon.csv")
"""A row for each county: measurements in picocuries per liter, separated by spaces."""


def load():
    """Return the county, the floor (0 is the basement) and the log of each measurement."""
    with FILE.open() as lines:
        _, *rows = csv.reader(lines)
    houses = [
        (county, floor, float(x))
        for county, (_, _, *floors) in enumerate(rows)
        for floor, measurements in enumerate(floors)
        for x in measurements.split()
    ]
    county, floor, measured = map(np.array, zip(*houses, strict=True))
    return county, floor, np.log(measured)


def build():
    """Return the model; `effects` are the intercept and the slope of each county."""
    county, floor, measured = load()
    coords = {"effect": ["intercept", "slope"], "county": range(county.max() + 1)}
    with pm.Model(coords=coords) as model:
        mean = pm.Normal("mean", 0, 2, dims="effect")
        chol, correlations, _ = pm.LKJCholeskyCov(
            "covariance", n=2, eta=2, sd_dist=pm.Exponential.dist(1, shape=2)
        )
        z = pm.Normal("z", dims=("county", "effect"))
        effects = mean + pt.dot(z, chol.T)
        pm.Deterministic("correlation", correlations[0, 1])
        sigma = pm.Exponential("sigma", 1)
        mu = effects[county, 0] + effects[county, 1] * floor
        pm.Normal("radon", mu, sigma, observed=measured)
    return model


def sampled():
    return sample(build())


NAMES = ["mean", "covariance_stds", "correlation", "sigma"]

if __name__ == "__main__":
    main(sampled, NAMES)
