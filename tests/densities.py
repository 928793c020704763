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
    """Return vectors of values and of each parameter: some of all combinations, always the same."""
    lists = {"value": values, **parameters}
    columns = np.array([*itertools.product(*lists.values())], float).T
    order = np.random.default_rng(zlib.crc32(name.encode())).permutation(columns.shape[1])
    found = dict(zip(lists, columns[:, order[: profiles.amount(quick=10, deep=60)]], strict=True))
    if values is OUT:
        scale = next((found[s] for s in _SCALES if s in found), 1.0)
        found["value"] = found.get("mu", found.get("loc", 0.0)) + scale * found["value"]
    return {k: x.astype(np.asarray(lists[k]).dtype) for k, x in found.items()}


def assert_right_gradients(as_written, compiled, slopes, theirs, given):
    """Assert the law for `jax.grad` and for the gradient that the library wrote.

    Parameters
    ----------
    as_written, compiled : callable
        The log-densities of vectors, without and with the default passes.
    slopes, theirs : callable
        Their gradients with respect to the vectors of floats, written by the library: compiled, and
        by its default mode.
    given : dict of str to array
        The vectors.
    """
    points = [*given.values()]
    wrt = [i for i, x in enumerate(points) if x.dtype.kind == "f"]
    value = np.asarray(compiled(*points))
    references = [exact.slopes(as_written, points, i) for i in wrt]
    is_flat = (value == -np.inf) & np.all([_is_flat(r) for r in references], axis=0)
    ways = {
        "jax.grad": jax.grad(lambda *x: compiled(*x).sum(), wrt)(*points),
        "the library's gradient": slopes(*points),
    }
    default = None
    for (way, found), (k, i) in itertools.product(ways.items(), enumerate(wrt)):
        low, high, is_known = _bounds(references[k])
        is_known = (is_known & np.isfinite(value)) | is_flat
        low, high = np.where(is_flat, -np.inf, low), np.where(is_flat, np.inf, high)
        error = _errors(np.asarray(found[k]), low, high)
        is_wrong = is_known & ~(error <= 1e-6)
        if is_wrong.any():
            default = theirs(*points) if default is None else default
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
