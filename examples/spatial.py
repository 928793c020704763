"""Sample a model of counts in the 48 contiguous states, with a sparse matrix of neighbours.

In a conditional autoregressive model, the rate of an area depends on those of its neighbours. The
logarithms of the rates are normal with the mean mu and the precision matrix tau * (D - alpha * W).
W tells which states share a border, and D has their numbers of neighbours on its diagonal. See
Besag, "Spatial interaction and the statistical analysis of lattice systems", Journal of the Royal
Statistical Society B 36 (1974).

The map is real. The counts are simulated from the model, so that the draws can be compared with
the parameters that made them.
"""

import jaxprgen  # noqa: I001  # First: it makes Aesara importable on current NumPy and Python.
import aeppl
import aesara.sparse as sparse
import aesara.tensor as at
import jax
import numpy as np
import scipy.sparse
from aeppl.transforms import LogOddsTransform, LogTransform, TransformValuesRewrite
from jax.experimental.sparse import BCSR
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

import figures
from sampling import nuts

jax.config.update("jax_enable_x64", True)

# Each state, with its neighbours that come later in the alphabet. States that meet in one point,
# or in a lake only, are no neighbours here.
MAP = """
AL FL GA MS TN; AR LA MO MS OK TN TX; AZ CA NM NV UT; CA NV OR; CO KS NE NM OK UT WY; CT MA NY RI;
DE MD NJ PA; FL GA; GA NC SC TN; IA IL MN MO NE SD WI; ID MT NV OR UT WA WY; IL IN KY MO WI;
IN KY MI OH; KS MO NE OK; KY MO OH TN VA WV; LA MS TX; MA NH NY RI VT; MD PA VA WV; ME NH; MI OH WI;
MN ND SD WI; MO NE OK TN; MS TN; MT ND SD WY; NC SC TN VA; ND SD; NE SD WY; NH VT; NJ NY PA;
NM OK TX; NV OR UT; NY PA VT; OH PA WV; OK TX; OR WA; PA WV; SD WY; TN VA; UT WY; VA WV
"""
PAIRS = [(a, b) for a, *others in map(str.split, MAP.split(";")) for b in others]
STATES = sorted({state for pair in PAIRS for state in pair})
ROWS, COLUMNS = np.array([[STATES.index(state) for state in pair] for pair in PAIRS]).T
HALF = scipy.sparse.coo_matrix((np.ones(len(PAIRS)), (ROWS, COLUMNS)), (len(STATES),) * 2)
NEIGHBOURS = (HALF + HALF.T).tocsr()
DEGREES = np.asarray(NEIGHBOURS.sum(1)).ravel()
# With them, a log-determinant takes as many operations as there are states.
EIGENVALUES = np.linalg.eigvalsh(NEIGHBOURS.toarray() / np.sqrt(np.outer(DEGREES, DEGREES)))

CHAINS, WARMUP, DRAWS, ACCEPTANCE = 4, 500, 1000, 0.9
EXPECTED = 40.0
"""The count that is expected of each state whose rate is 1."""
SIMULATED = {"tau": 2.0, "alpha": 0.9, "mu": 0.2}

stream = at.random.RandomStream()
W, phi = sparse.csr_matrix("W"), at.dvector("phi")
tau = stream.gamma(2, 1, name="tau")
alpha = stream.beta(4, 1, name="alpha")
mu = stream.normal(0, 1, name="mu")
Y = stream.poisson(EXPECTED * at.exp(phi), name="Y")

# A sampler needs unbounded variables: log(tau) and the log-odds of alpha.
unbounded = TransformValuesRewrite({tau: LogTransform(), alpha: LogOddsTransform()})
log_density, values = aeppl.joint_logprob(tau, alpha, mu, Y, extra_rewrites=unbounded)
scale, coupling = at.exp(values[0]), at.sigmoid(values[1])
log_determinant = len(STATES) * values[0] + at.sum(at.log1p(-coupling * EIGENVALUES))
deviation = phi - values[2]
quadratic = at.dot(deviation, DEGREES * deviation - coupling * sparse.dot(W, deviation))
log_density += (log_determinant - scale * quadratic) / 2  # Up to a constant.
logdensity = jaxprgen.compile([*values[:3], phi, values[3], W], log_density)


def simulate():
    """Simulate the logarithms of the rates of the states, and their counts."""
    rng = np.random.default_rng(0)
    tau, alpha, mu = SIMULATED.values()
    precision = tau * (np.diag(DEGREES) - alpha * NEIGHBOURS.toarray())
    white = rng.normal(size=len(STATES))
    rates = mu + np.linalg.solve(np.linalg.cholesky(precision).T, white)
    return rates, rng.poisson(EXPECTED * np.exp(rates))


def main():
    rates, counts = simulate()
    matrix = BCSR.from_scipy_sparse(NEIGHBOURS)
    print(f"{len(STATES)} states, {len(PAIRS)} borders, {counts.sum()} counts")

    gradient = jax.grad(logdensity, argnums=3)(0.0, 0.0, 0.0, np.zeros(48), counts, matrix)
    print("Gradient with respect to phi, at zero:", gradient[:4].round(1), "...")

    starting, sampling = jax.random.split(jax.random.key(0))
    starts = 0.1 * jax.random.normal(starting, (CHAINS, 3 + len(STATES)))
    positions = *starts[:, :3].T, starts[:, 3:]
    (log_tau, odds, mus, phis), diverged = nuts(
        lambda position: logdensity(*position, counts, matrix),
        *(positions, sampling, WARMUP, DRAWS, ACCEPTANCE),
    )
    draws = {"tau": np.exp(log_tau), "alpha": jax.nn.sigmoid(odds), "mu": mus}
    print(f"{int(diverged.sum())} of {diverged.size} draws diverged.\n")
    print(f"{'':8}{'simulated':>10}{'mean':>8}{'sd':>8}{'size':>8}{'R-hat':>8}")
    for name, drawn in draws.items():
        size, ratio = effective_sample_size(drawn), split_gelman_rubin(drawn)
        row = f"{name:8}{SIMULATED[name]:10.2f}{drawn.mean():8.3f}{drawn.std():8.3f}"
        print(f"{row}{size:8.0f}{ratio:8.3f}")
    found = np.corrcoef(rates, phis.mean((0, 1)))[0, 1]
    print(f"\nCorrelation of the simulated phi with the means of its draws: {found:.2f}")
    return draws | {"phi": phis}


def plot(draws):
    """Draw the rates of the states: those simulated, those counted, and posterior intervals."""
    rates, counts = simulate()
    order = np.argsort(rates)
    flat = np.exp(np.asarray(draws["phi"])).reshape(-1, len(STATES))[:, order]
    low, high = np.percentile(flat, [5, 95], axis=0)
    figure, axes = figures.subplots()
    names = [STATES[i] for i in order]
    axes.vlines(names, low, high, lw=3, alpha=0.4, label="middle 90 % of draws")
    axes.plot(np.exp(rates)[order], "_k", ms=7, label="simulated")
    axes.plot(counts[order] / EXPECTED, ".", color="C1", ms=5, label="counts / expected")
    axes.set(ylabel="rate", title="Rates of the states", xmargin=0.01)
    axes.tick_params("x", labelsize=6, rotation=90)
    axes.legend()
    return figure


if __name__ == "__main__":
    figures.save(plot, main())
