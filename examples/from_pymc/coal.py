"""Accidents in British coal mines from 1851 to 1962, whose rate is a Gaussian process.

Each of the 191 accidents killed ten people or more. The counts of the years are Poisson variables;
the logarithm of their rate is a Gaussian process, by PyMC's approximation in Hilbert space: twenty
sines and cosines whose coefficients are normal, so that a step takes no Cholesky factor. The dates
are those of Jarrett, "A note on the intervals between coal-mining disasters", Biometrika 66 (1979).
Carlin, Gelfand and Smith, "Hierarchical Bayesian analysis of changepoint problems", Applied
Statistics 41 (1992), find rates of 3.1 until about 1890 and 0.9 after it.
"""

import numpy as np
import pymc as pm
from report import main, sample

ACCIDENTS = """
4 5 4 1 0 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1 3 2 2 1 1 1 1 3 0 0 1 0
1 1 0 0 3 1 0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0 1 1 0 2 3 3 1 1 2 1 1 1 1 2 3 3 0 0 0 1 4 0 0 0
1 0 0 0 0 0 1 0 0 1 0 1
"""
FUNCTIONS = 20
"""How many basis functions approximate the process."""


def load():
    """Return the years, and the number of accidents in each."""
    counts = np.array(ACCIDENTS.split(), int)
    return 1851 + np.arange(len(counts)), counts


def build():
    """Return the model."""
    years, counts = load()
    with pm.Model(coords={"year": years}) as model:
        level = pm.Normal("level", 0, 1)
        amplitude = pm.HalfNormal("amplitude", 1)
        years_alike = pm.InverseGamma("years_alike", mu=30, sigma=15)
        process = pm.gp.HSGP(
            m=[FUNCTIONS], c=1.5, cov_func=amplitude**2 * pm.gp.cov.Matern52(1, ls=years_alike)
        )
        change = process.prior("change", X=years[:, None].astype(float), dims="year")
        rate = pm.Deterministic("rate", pm.math.exp(level + change), dims="year")
        pm.Deterministic("rate_until_1889", rate[years < 1890].mean())
        pm.Deterministic("rate_from_1890", rate[years >= 1890].mean())
        pm.Poisson("accidents", rate, observed=counts, dims="year")
    return model


def sampled():
    return sample(build(), acceptance=0.95)


NAMES = ["amplitude", "years_alike", "rate_until_1889", "rate_from_1890"]

if __name__ == "__main__":
    main(sampled, NAMES)
