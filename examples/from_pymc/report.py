"""Sample a model by NUTS, print a table of its posterior, and draw a trace plot if asked."""

import argparse

import arviz as az
import jax
import pymc as pm

import jaxprgen.pymc

jax.config.update("jax_enable_x64", True)  # PyMC computes with 64 bits.


def sample(model, draws=1000, tune=1000, acceptance=0.9):
    """Return the draws of four chains by NumPyro's No-U-Turn Sampler."""
    with model, jaxprgen.pymc.sampling():
        return pm.sample(
            draws=draws,
            tune=tune,
            chains=4,
            random_seed=1,
            progressbar=False,
            nuts_sampler="numpyro",
            nuts={"target_accept": acceptance, "chain_method": "vectorized"},
        )


def main(sampled, names):
    """Sample, print a table of the named variables, and save their trace plot if asked.

    Parameters
    ----------
    sampled
        A function that returns the draws.
    names
        The variables of the table and the plot.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--plot", metavar="FILE.png", help="save a trace plot")
    file = parser.parse_args().plot
    trace = sampled()
    divergent = int(trace["sample_stats"]["diverging"].sum())
    print(f"{divergent} of {trace['sample_stats']['diverging'].size} draws diverged.\n")
    print(az.summary(trace, var_names=names))
    if file:
        figure = {"figsize": (9, 1.4 * len(names)), "layout": "constrained"}
        plot = az.plot_trace_dist(
            trace, var_names=names, backend="matplotlib", figure_kwargs=figure
        )
        plot.savefig(file, dpi=60)
    return trace
