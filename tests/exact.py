"""Programs in the arithmetic of mpmath, and derivatives of what they compute."""

from __future__ import annotations

import operator

import jax
import mpmath
import numpy as np
from mpmath import mpf

NAN, INF = mpf("nan"), mpf("inf")


def _ieee(function):
    """Return a function that is infinite or NaN where mpmath raises an error."""

    def found(*xs):
        try:
            y = function(*xs)
        except ZeroDivisionError:
            return NAN if not xs[0] or mpmath.isnan(xs[0]) else mpmath.sign(xs[0]) * INF
        except (ValueError, OverflowError, mpmath.mp.NoConvergence):
            return NAN
        return NAN if isinstance(y, mpmath.mpc) else y

    return found


def _log(x):
    return -INF if x == 0 else mpmath.log(x)


def _power(x, y):
    if y == 0:
        return mpf(1)
    return (INF if y < 0 else mpf(0)) if x == 0 else mpmath.power(x, y)


def _lgamma(x):
    if mpmath.isinf(x) or (x <= 0 and x == int(x)):
        return INF
    return mpmath.re(mpmath.loggamma(x))


def _rounded(round_):
    return lambda x: x if not mpmath.isfinite(x) else round_(x)


def _scaled(order):
    return lambda x: mpmath.besseli(order, x) * mpmath.exp(-abs(x))


def _extreme(choose):
    return lambda x, y: NAN if mpmath.isnan(x) or mpmath.isnan(y) else choose(x, y)


def _beta(a, b, x):
    return mpmath.betainc(a, b, 0, x, regularized=True)


FUNCTIONS = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "abs")},
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    **{name: getattr(mpmath, name) for name in ("exp", "expm1", "sqrt", "sin", "cos", "tan")},
    **{
        name: getattr(mpmath, name)
        for name in ("tanh", "sinh", "cosh", "atan", "atan2", "erf", "erfc")
    },
    "add_any": operator.add,
    "div": operator.truediv,
    "log": _log,
    "log1p": lambda x: _log(1 + x),
    "exp2": lambda x: mpf(2) ** x,
    "square": lambda x: x * x,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "pow": _power,
    "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "lgamma": _lgamma,
    "digamma": mpmath.digamma,
    "sign": mpmath.sign,
    "floor": _rounded(mpmath.floor),
    "ceil": _rounded(mpmath.ceil),
    "round": _rounded(mpmath.nint),
    "max": _extreme(max),
    "min": _extreme(min),
    "is_finite": mpmath.isfinite,
    "bessel_i0e": _scaled(0),
    "bessel_i1e": _scaled(1),
    "igamma": lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
    "igammac": lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True),
    "regularized_incomplete_beta": _beta,
    "stop_gradient": lambda x: x,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.not_,
}
MOVES = {
    *("broadcast_in_dim", "reshape", "transpose", "squeeze", "slice", "concatenate", "pad", "rev"),
    *("gather", "dynamic_slice", "copy", "select_n", "expand_dims"),
}
"""Primitives that put elements into other places."""
CUMULATIVE = {"cumsum": np.add, "cumprod": np.multiply}
REDUCTIONS = {"reduce_sum": np.add, "reduce_prod": np.multiply, "reduce_max": np.maximum}


def _is_real(x):
    return x.dtype == object


def exactly(x):
    """Return an array of floats as one of mpmath's numbers; others as they are."""
    x = np.asarray(x)
    return np.asarray(np.frompyfunc(mpf, 1, 1)(x), object) if x.dtype.kind == "f" else x


def evaluate(closed, arguments):
    """Return the results of a program; floating-point numbers are mpmath's, in object arrays."""
    jaxpr = getattr(closed, "jaxpr", closed)
    known = dict(zip(jaxpr.constvars, map(exactly, getattr(closed, "consts", ())), strict=True))
    known |= zip(jaxpr.invars, arguments, strict=True)

    def read(x):
        return exactly(x.val) if hasattr(x, "val") else known[x]

    for eqn in jaxpr.eqns:
        found = _result(eqn, [read(x) for x in eqn.invars])
        for v, y in zip(eqn.outvars, found, strict=True):
            dtype = object if v.aval.dtype.kind == "f" else v.aval.dtype
            known[v] = np.broadcast_to(np.asarray(y, dtype), v.aval.shape)
    return [read(x) for x in jaxpr.outvars]


def _result(eqn, xs):
    name, params = eqn.primitive.name, eqn.params
    if not any(map(_is_real, xs)) and all(v.aval.dtype.kind != "f" for v in eqn.outvars):
        found = eqn.primitive.bind(*xs, **params)
        return found if eqn.primitive.multiple_results else [found]
    if name in ("jit", "pjit", "custom_jvp_call", "custom_vjp_call", "closed_call", "remat2"):
        inner = params.get("jaxpr") or params["call_jaxpr"]
        return evaluate(inner, xs)
    if name == "while":
        return _loop(params, xs)
    if name in MOVES:
        return [_moved(eqn, xs)]
    if name in REDUCTIONS:
        return [REDUCTIONS[name].reduce(xs[0], axis=params["axes"])]
    if name in CUMULATIVE:
        return [CUMULATIVE[name].accumulate(xs[0], axis=params["axis"])]
    if name == "integer_pow":
        return [np.frompyfunc(_ieee(lambda x: x ** params["y"]), 1, 1)(xs[0])]
    if name == "convert_element_type":
        return [_converted(xs[0], params["new_dtype"])]
    if name == "clamp":
        low, x, high = xs
        return [np.minimum(np.maximum(x, low), high)]
    return [np.frompyfunc(_ieee(FUNCTIONS[name]), len(xs), 1)(*xs)]


def _converted(x, dtype):
    if dtype.kind == "f":
        return x if _is_real(x) else np.frompyfunc(lambda n: mpf(int(n)), 1, 1)(x)
    return np.vectorize(lambda y: int(y) if mpmath.isfinite(y) else 0, otypes=[dtype])(x)


def _moved(eqn, xs):
    """Let JAX move the positions of elements instead of the elements."""
    pool = np.concatenate([x.ravel() for x in xs if _is_real(x)])
    start, places = 0, []
    for x in xs:
        places.append(np.arange(start, start + x.size).reshape(x.shape) if _is_real(x) else x)
        start += x.size if _is_real(x) else 0
    return pool[np.asarray(eqn.primitive.bind(*map(jax.numpy.asarray, places), **eqn.params))]


def _loop(params, xs):
    a, b = params["cond_nconsts"], params["body_nconsts"]
    tested, constant, carried = xs[:a], xs[a : a + b], xs[a + b :]
    while evaluate(params["cond_jaxpr"], [*tested, *carried])[0]:
        carried = evaluate(params["body_jaxpr"], [*constant, *carried])
    return carried


def slopes(fun, arguments, wrt, digits=(40, 100, 400, 1500)):
    """Return a function's value, and its derivatives from the left and from the right.

    Its result and its arguments are vectors of one length, and elements do not depend on others.
    The digits are as many as it takes for two results to agree; where none do, all three are NaN.
    """
    closed = jax.make_jaxpr(fun)(*(x[:1] for x in arguments))
    rows = zip(*arguments, strict=True)
    return np.array([_agreed(closed, [np.array([x]) for x in row], wrt, digits) for row in rows]).T


def _agreed(closed, point, wrt, digits):
    known = np.full(3, np.nan)
    for count in digits:
        with mpmath.workdps(count):
            found = _differences(closed, list(map(exactly, point)), wrt)
        same = (found == known) | (np.isnan(found) & np.isnan(known))
        with np.errstate(all="ignore"):
            if count > digits[0] and (same | (abs(found - known) <= 1e-8 * abs(known))).all():
                return found
        known = found
    return np.full(3, np.nan)


def _differences(closed, point, wrt):
    x = point[wrt]
    step = (abs(x) if x[0] else mpf(10) ** -6) * mpf(10) ** (-(mpmath.mp.dps // 3))

    def moved(by):
        return evaluate(closed, [*point[:wrt], x + by, *point[wrt + 1 :]])[0]

    at, below, above = moved(0 * step), moved(-step), moved(step)
    return np.array([at, (at - below) / step, (above - at) / step], float)[:, 0]
