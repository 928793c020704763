"""The annual flow of the Nile at Aswan, 1871 to 1970: a level that changes from year to year.

The level is a random walk, which is measured with noise. The Kalman filter integrates the level
out, in a loop of `pytensor.scan`, so that NUTS draws two deviations only: that of the noise and
that of the steps of the level. The data and the model are those of Durbin and Koopman, Time Series
Analysis by State Space Methods (2001), chapter 2, who estimate the variances 15,099 and 1,469.1.
"""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from report import main, sample

FLOW = """
1120 1160 963 1210 1160 1160 813 1230 1370 1140 995 935 1110 994 1020 960 1180 799 958 1140 1100
1210 1150 1250 1260 1220 1030 1100 774 840 874 694 940 833 701 916 692 1020 1050 969 831 726 456
824 702 1120 1100 832 764 821 768 845 864 862 698 845 744 796 1040 759 781 865 845 944 984 897 822
1010 771 676 649 846 812 742 801 1040 860 874 848 890 744 749 838 1050 918 986 797 923 975 815 1020
906 901 1170 912 746 919 718 714 740
"""
"""In 10^8 cubic meters. The numbers are in the public domain: R and statsmodels ship them, too."""
START = 1e7
"""The variance of the level before the first year: nothing is known of it."""
SCALE = 200.0
"""The scale of the priors."""


def load():
    return np.array(FLOW.split(), float)


def log_likelihood(flow, noise, step):
    """Return the log-density of the flow, by the Kalman filter."""

    def advance(y, level, variance, noise, step):
        total = variance + noise**2
        error, gain = y - level, variance / total
        term = -(pt.log(2 * np.pi * total) + error**2 / total) / 2
        return level + gain * error, variance * (1 - gain) + step**2, term

    *_, terms = pytensor.scan(
        advance,
        sequences=[flow],
        outputs_info=[np.float64(0.0), np.float64(START), None],
        non_sequences=[noise, step],
        return_updates=False,
    )
    return terms.sum()


def build():
    """Return the model."""
    with pm.Model() as model:
        noise, step = pm.HalfNormal("noise", SCALE), pm.HalfNormal("step", SCALE)
        pm.Potential("flow", log_likelihood(pt.constant(load()), noise, step))
    return model


def sampled():
    return sample(build())


NAMES = ["noise", "step"]

if __name__ == "__main__":
    main(sampled, NAMES)
