"""The law of gradients of log-densities, and the points at which it is tried.

Where a log-density is finite, or is minus infinity all around, its gradient is finite. It is right
to six digits, or as far as the library's default mode has it right: a formula may cancel as it is
written, and a library may have no derivative at isolated points.
"""

from __future__ import annotations

import itertools
import zlib

import exact
import jax
import numpy as np
import profiles

import jaxprgen

OUT = (0.0, 1.25, -1.25, 4.0, -4.0, 9.0, -9.0, 20.0, -20.0, 40.0, -40.0)
"""Values, in scales from the location."""
POSITIVE = (-1.0, 0.0, 1e-30, 1e-12, 0.1, 1.0, 4.0, 9.0, 20.0, 40.0, 1e3, 1e6)
UNIT = (-0.5, 0.0, 1e-30, 1e-12, 0.1, 0.5, 0.9, 1 - 1e-12, 1.0, 1.5)
COUNT = (-1, 0, 1, 2, 5, 20, 100, 1000)
LOCATION, SCALE = (0.0, -3.0, 100.0), (1.0, 0.1, 50.0)
SHAPE, TINY = (0.1, 1.25, 2.5, 1000.0), (1e-12, 1e-3, 0.5, 3.0, 50.0, 1000.0)
PROBABILITY = (0.0, 1e-30, 1e-12, 0.3, 1 - 1e-12, 1.0)
LOGIT = (0.0, -1.0, 9.0, -40.0, 40.0, -800.0, 800.0)
AROUND = {"mu": LOCATION, "sigma": SCALE}
_SCALES = ("sigma", "b", "s", "beta")


def arguments(name, parameters, values):
    """Return arrays of values and of each parameter: some of all combinations, always the same."""
    lists = {k: np.asarray(x) for k, x in {"value": values, **parameters}.items()}
    rows = np.array([*itertools.product(*(range(len(x)) for x in lists.values()))]).T
    order = np.random.default_rng(zlib.crc32(name.encode())).permutation(rows.shape[1])
    rows = rows[:, order[: profiles.amount(quick=6, deep=60)]]
    found = {k: x[row] for (k, x), row in zip(lists.items(), rows, strict=True)}
    if values is OUT:
        scale = next((found[s] for s in _SCALES if s in found), 1.0)
        found["value"] = found.get("mu", found.get("loc", 0.0)) + scale * found["value"]
    return found


def assert_right_gradients(library, inputs, density, given):
    """Assert the law for `jax.grad` and for the gradient that the library writes.

    Parameters
    ----------
    library : module
        `aesara` or `pytensor`.
    inputs : list of Variable
        Vectors.
    density : Variable
        Log-densities of the vectors' elements.
    given : dict of str to array
        The vectors.
    """
    wrt = [i for i, v in enumerate(inputs) if v.type.dtype.startswith("float")]
    differentiated = [inputs[i] for i in wrt]
    slopes = library.grad(density.sum(), differentiated, disconnected_inputs="ignore")
    compiled, points = jaxprgen.compile(inputs, density), [*given.values()]
    value = np.asarray(compiled(*points))
    as_written = jaxprgen.compile(inputs, density, passes=())
    references = [exact.slopes(as_written, points, i) for i in wrt]
    is_flat = (value == -np.inf) & np.all([_is_flat(r) for r in references], axis=0)
    ways = {
        "jax.grad": jax.grad(lambda *x: compiled(*x).sum(), wrt)(*points),
        "the library's gradient": jaxprgen.compile(inputs, slopes)(*points),
    }
    default = None
    for (way, found), (k, i) in itertools.product(ways.items(), enumerate(wrt)):
        low, high, is_known = _bounds(references[k])
        is_known = (is_known & np.isfinite(value)) | is_flat
        low, high = np.where(is_flat, -np.inf, low), np.where(is_flat, np.inf, high)
        error = _errors(np.asarray(found[k]), low, high)
        is_wrong = is_known & ~(error <= 1e-6)
        if is_wrong.any():
            default = default or library.function(
                inputs, slopes, mode="FAST_RUN", on_unused_input="ignore"
            )(*points)
            is_wrong &= _errors(np.asarray(default[k]), low, high) <= 1e-6
        rows = np.stack([*points, found[k], low, high])[:, is_wrong].T
        assert not len(rows), f"{way}: {list(given)}, d/d{[*given][i]}, true from, to:\n{rows}"


def _is_flat(reference):
    value, left, right = reference
    return (value == -np.inf) & np.isnan(left) & np.isnan(right)


def _bounds(reference):
    """Return between which slopes a derivative must be, and where it is known.

    At a kink it is between the slopes on both sides, and at an end of the support between 0 and the
    slope inside.
    """
    value, *sides = reference
    sides = np.where(np.isfinite(sides), sides, 0)
    is_known = np.isfinite(value) & np.isfinite(reference[1:]).any(0)
    return sides.min(0), sides.max(0), is_known & (abs(sides).max(0) < 1e300)


def _errors(found, low, high):
    size = np.maximum(np.maximum(abs(low), abs(high)), 1e-7)
    with np.errstate(all="ignore"):
        error = np.maximum(np.maximum(low - found, found - high), 0)
        return np.where(np.isfinite(found), np.where(error > 0, error / size, 0), np.inf)
