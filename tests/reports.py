"""Tables of cases like those that users reported, and what is right of a case."""

import jax
import numpy as np

WAYS = {"both": "vj", "forward": "j", "pullback": "v"}
"""Which ways to a derivative there are: JAX's vjp and jvp."""


def recorded(cases, report, *rest):
    """Return a decorator that adds a function to a table, by its name, with what else is given."""

    def add(build):
        assert build.__name__ not in cases and report
        cases[build.__name__] = (build, *rest) if rest else build
        return build

    return add


def made(build):
    """Return inputs, a list of outputs, and arguments of the inputs' types."""
    inputs, outputs, args = build()
    outputs = outputs if isinstance(outputs, list) else [outputs]
    arrays = [v.type.filter(np.asarray(p, v.dtype)) for v, p in zip(inputs, args, strict=True)]
    return inputs, outputs, arrays


def assert_derivatives_of_squares(f, python, inputs, args, ways):
    """The derivative of the sum of squares of outputs, along one direction, is that of differences.

    The differences are those of ``python``, which takes all arguments.
    """
    places = [j for j, v in enumerate(inputs) if v.dtype == "float64"]
    rng = np.random.default_rng(0)
    parts = [args[j] for j in places]
    along = [rng.normal(size=part.shape) for part in parts]

    def at_place(*parts):
        new = dict(zip(places, parts, strict=True))
        return [new.get(j, arg) for j, arg in enumerate(args)]

    def cost(*parts):
        return sum((out * out).sum() for out in f(*at_place(*parts)))

    def moved(h):
        parts_there = [np.asarray(p + h * way) for p, way in zip(parts, along, strict=True)]
        return python(*at_place(*parts_there))

    def differences(h):
        ends = zip(moved(h), moved(-h), strict=True)
        return sum(np.sum((p - q) * (p + q)) for p, q in ends) / (2 * h)

    # Two step sizes cancel the error of second order.
    expected = (4 * differences(5e-5) - differences(1e-4)) / 3
    if "j" in ways:
        forward = jax.jit(lambda: jax.jvp(cost, parts, along)[1])()
        np.testing.assert_allclose(forward, expected, rtol=1e-6, atol=1e-7)
    if "v" in ways:
        slopes = jax.jit(jax.grad(cost, tuple(range(len(parts)))))(*parts)
        reverse = sum(np.vdot(p, q) for p, q in zip(slopes, along, strict=True))
        np.testing.assert_allclose(reverse, expected, rtol=1e-6, atol=1e-7)
    if "j" in ways and "v" in ways:
        np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-11)
