"""Elementwise rules."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special

from intervals.values import INF, ULPS, Interval, between, hull, interval, known, made

# --- Functions of one number -------------------------------------------------------------


def monotone(f, domain=(-INF, INF), image=(-INF, INF), *, ulps=ULPS, absolute=0, given=0):
    """Return the rule of a function that is monotone on its domain.

    Near zero, XLA's result may be off by ``absolute`` times `ULPS` units. Or it may be the result
    for an argument that is off by ``given`` times as much.
    """

    def rule(context, x, **params):
        nan = (x.low < domain[0]) | (x.high > domain[1])
        eps = ULPS * float(jnp.finfo(x.dtype).eps) if absolute or given else 0
        near = given * eps * np.minimum(x.magnitude, 1e300)
        low, high = hull(*(f(np.clip(end, *domain)) for end in (x.low - near, x.high + near)))
        y = made(context, low, high, x, nan=nan, ulps=ulps, error=absolute * eps)
        return Interval(np.clip(y.low, *image), np.clip(y.high, *image), y.dtype, y.nan)

    return rule


def nearest(x):
    """Return the smallest magnitude in each interval."""
    return np.where(x.has_zero, 0, np.minimum(np.abs(x.low), np.abs(x.high)))


def even(f):
    """Return the rule of an even function that increases from zero."""

    def rule(context, x, **params):
        y = made(context, f(nearest(x)), f(x.magnitude), x)
        return Interval(np.maximum(y.low, 0), y.high, y.dtype, y.nan)

    return rule


def wave(f, top):
    """Return the rule of a wave of period two pi: 1 at ``top``, -1 half a period later."""

    def passes(x, place):
        first, last = (x.low - place) / (2 * np.pi), (x.high - place) / (2 * np.pi)
        return np.floor(last + 1e-6) >= np.ceil(first - 1e-6)

    def rule(context, x, **params):
        low, high = hull(f(x.low), f(x.high))
        far = x.magnitude > 1e6
        low = np.where(far | passes(x, top + np.pi), -1, low)
        high = np.where(far | passes(x, top), 1, high)
        error = ULPS * float(jnp.finfo(x.dtype).eps)
        return made(context, low, high, x, nan=np.isinf(x.magnitude), ulps=0, error=error)

    return rule


def away_from_zero(x):
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0)


UNIT, POSITIVE = (-1, 1), (0, INF)
interval.rules(
    {
        "exp": monotone(np.exp, image=POSITIVE),
        "exp2": monotone(np.exp2, image=POSITIVE, given=1),
        "expm1": monotone(np.expm1, image=(-1, INF)),
        "log": monotone(np.log, POSITIVE, absolute=1),
        "log1p": monotone(np.log1p, (-1, INF), ulps=200),
        "sqrt": monotone(np.sqrt, POSITIVE, POSITIVE),
        "cbrt": monotone(np.cbrt, ulps=1000, absolute=1),
        "logistic": monotone(scipy.special.expit, image=(0, 1)),
        "tanh": monotone(np.tanh, image=UNIT),
        "sinh": monotone(np.sinh),
        "cosh": even(np.cosh),
        "asinh": monotone(np.arcsinh),
        "acosh": monotone(np.arccosh, (1, INF), POSITIVE, absolute=1),
        "atanh": monotone(np.arctanh, UNIT, absolute=1, given=1),
        "asin": monotone(np.arcsin, UNIT),
        "acos": monotone(np.arccos, UNIT, absolute=1),
        "atan": monotone(np.arctan),
        "erf": monotone(scipy.special.erf),
        "erfc": monotone(scipy.special.erfc, image=(0, 2), absolute=1),
        "erf_inv": monotone(scipy.special.erfinv, UNIT, given=1),
        "sin": wave(np.sin, np.pi / 2),
        "cos": wave(np.cos, 0),
        "abs": even(np.abs),
        "square": even(np.square),
        "neg": monotone(np.negative, ulps=0),
        "sign": monotone(np.sign, ulps=0),
        "floor": monotone(np.floor, ulps=0),
        "ceil": monotone(np.ceil, ulps=0),
    }
)


@interval.rule("rsqrt")
def _(context, x, **params):
    y = monotone(lambda x: 1 / np.sqrt(x), POSITIVE, POSITIVE)(context, x)
    return Interval(np.where(x.has_zero, -INF, y.low), y.high, y.dtype, y.nan)  # At -0.0.


@interval.rule("one_minus_square")
def _(context, x):
    error = ULPS * float(jnp.finfo(x.dtype).eps)
    return made(context, 1 - x.magnitude**2, 1 - nearest(x) ** 2, x, error=error)


@interval.rule("round")
def _(context, x, *, rounding_method):
    f = away_from_zero if rounding_method == jax.lax.RoundingMethod.AWAY_FROM_ZERO else np.rint
    return monotone(f, ulps=0)(context, x)


@interval.rule("tan")
def _(context, x, **params):
    low, high = np.tan(x.low), np.tan(x.high)
    first = np.floor(x.low / np.pi + 0.5 - 1e-6)
    last = np.floor(x.high / np.pi + 0.5 + 1e-6)
    pole = (first != last) | (x.magnitude > 1e6)
    low, high = np.where(pole, -INF, low), np.where(pole, INF, high)
    error = ULPS * float(jnp.finfo(x.dtype).eps)
    return made(context, low, high, x, nan=np.isinf(x.magnitude), error=error)


@interval.rule("is_finite")
def _(context, x):
    sure = np.isfinite(x.low) & np.isfinite(x.high) & ~x.nan
    return made(context, sure, (x.low < INF) & (x.high > -INF))


@interval.rule("convert_element_type")
def _(context, x, *, new_dtype, **params):
    low, high, nan = x.low, x.high, x.nan
    if np.dtype(new_dtype).kind == "b":
        return made(context, ~x.has_zero & ~nan, ((low != 0) | (high != 0)) | nan)
    if not jnp.issubdtype(new_dtype, jnp.floating):
        info = jnp.iinfo(new_dtype)
        wild = nan | (low < float(info.min)) | (high > float(info.max))
        ends = np.where(wild, float(info.min), low), np.where(wild, float(info.max), high)
        return made(context, *map(np.trunc, ends))
    is_exact = x.dtype.kind == "b" or (
        jnp.promote_types(x.dtype, new_dtype) == new_dtype
        and (x.dtype.kind not in "iu" or new_dtype == np.float64)
    )
    return made(context, low, high, x, ulps=0 if is_exact else 1)


# --- Arithmetic --------------------------------------------------------------------------


def product(x, y):
    """Return bounds of products, and where zero times infinity is possible."""
    ends = [np.nan_to_num(a * b, nan=0, posinf=INF, neginf=-INF) for a, b in corners(x, y)]
    nan = (x.has_zero & np.isinf(y.magnitude)) | (y.has_zero & np.isinf(x.magnitude))
    return *hull(*ends), nan


def corners(x, y):
    return [(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]


@interval.rule("add", "add_any")
def _(context, x, y):
    nan = (x.high == INF) & (y.low == -INF) | (x.low == -INF) & (y.high == INF)
    return made(context, x.low + y.low, x.high + y.high, x, y, nan=nan)


@interval.rule("sub")
def _(context, x, y):
    nan = (x.high == INF) & (y.high == INF) | (x.low == -INF) & (y.low == -INF)
    return made(context, x.low - y.high, x.high - y.low, x, y, nan=nan)


@interval.rule("mul")
def _(context, x, y, **params):
    if context.eqn.invars[0] is context.eqn.invars[1]:
        return even(np.square)(context, x)
    low, high, nan = product(x, y)
    return made(context, low, high, x, y, nan=nan)


@interval.rule("div")
def _(context, x, y):
    whole = not jnp.issubdtype(x.dtype, jnp.floating)
    ends = [np.nan_to_num(a / b, nan=0, posinf=INF, neginf=-INF) for a, b in corners(x, y)]
    low, high = hull(*(np.trunc(end) if whole else end for end in ends))
    low, high = np.where(y.has_zero, -INF, low), np.where(y.has_zero, INF, high)
    nan = x.has_zero & y.has_zero | np.isinf(x.magnitude) & np.isinf(y.magnitude)
    return made(context, low, high, x, y, nan=nan)


@interval.rule("rem")
def _(context, x, y):
    """Bound a remainder by both operands; it has the sign of the dividend."""
    most = np.where(y.has_zero & (x.dtype.kind in "iu"), INF, y.magnitude)
    low, high = np.maximum(np.minimum(x.low, 0), -most), np.minimum(np.maximum(x.high, 0), most)
    return made(context, low, high, x, y, nan=y.has_zero | np.isinf(x.magnitude))


@interval.rule("pow")
def _(context, x, y):
    whole = (y.low == y.high) & (np.rint(y.low) == y.low) & np.isfinite(y.low)
    low, high = hull(*(np.power(a, b) for a, b in corners(x, y)))
    low = np.where(whole & (y.low % 2 == 0) & (y.low > 0) & x.has_zero, 0, low)
    unknown = (x.low < 0) & ~whole | x.has_zero & (y.low < 0)
    low, high = np.where(unknown, -INF, low), np.where(unknown, INF, high)
    # XLA computes the exponential of a product, or multiplies repeatedly.
    ulps = ULPS + np.where(whole, np.minimum(y.magnitude, 1e9), 1000)
    return made(context, low, high, x, y, nan=(x.low < 0) & ~whole, ulps=ulps)


@interval.rule("integer_pow")
def _(context, x, *, y):
    power = interval.table["pow"](context, x, between(np.array(abs(y)), np.array(abs(y))))
    if y >= 0:
        return power
    # XLA divides one by the power, which may underflow to zero.
    one = np.ones(x.shape, x.dtype)
    return interval.table["div"](context, between(one, one), power)


@interval.rule("max", "min")
def _(context, x, y):
    f = getattr(np, f"{context.primitive}imum")
    return made(context, f(x.low, y.low), f(x.high, y.high), x, y, ulps=0)


@interval.rule("clamp")
def _(context, least, x, most):
    ends = [
        np.minimum(np.maximum(a, b), c)
        for a, b, c in ((least.low, x.low, most.low), (least.high, x.high, most.high))
    ]
    return made(context, *ends, least, x, most, ulps=0)


# --- Booleans: 0 is false and 1 is true ---------------------------------------------------


def compared(surely, maybe):
    """Return the rule of a comparison that surely holds or may hold; it is false for NaN."""

    def rule(context, x, y):
        return made(context, surely(x, y) & ~x.nan & ~y.nan, maybe(x, y))

    return rule


def same(x, y):
    return (x.low == x.high) & (y.low == y.high) & (x.low == y.low)


def meet(x, y):
    return (x.low <= y.high) & (y.low <= x.high)


interval.rules(
    {
        "lt": compared(lambda x, y: x.high < y.low, lambda x, y: x.low < y.high),
        "le": compared(lambda x, y: x.high <= y.low, lambda x, y: x.low <= y.high),
        "gt": compared(lambda x, y: x.low > y.high, lambda x, y: x.high > y.low),
        "ge": compared(lambda x, y: x.low >= y.high, lambda x, y: x.high >= y.low),
        "eq": compared(same, meet),
    }
)


@interval.rule("ne")
def _(context, x, y):
    return made(context, ~meet(x, y), ~same(x, y) | x.nan | y.nan)


@interval.rule("and", "or", "xor", "not")
def _(context, *operands):
    if any(x.dtype != bool for x in operands):
        return known(context, *operands)
    lows, highs = [x.low for x in operands], [x.high for x in operands]
    if context.primitive == "not":
        return made(context, 1 - highs[0], 1 - lows[0])
    if context.primitive == "xor":
        decided = (lows[0] == highs[0]) & (lows[1] == highs[1])
        differ = lows[0] != lows[1]
        return made(context, decided & differ, ~decided | differ)
    f = np.minimum if context.primitive == "and" else np.maximum
    return made(context, f(*lows), f(*highs))


@interval.rule("select_n")
def _(context, which, *cases):
    low, high, nan = np.full(cases[0].shape, INF), np.full(cases[0].shape, -INF), False
    for i, case in enumerate(cases):
        possible = (which.low <= i) & (i <= which.high)
        low = np.where(possible, np.minimum(low, case.low), low)
        high = np.where(possible, np.maximum(high, case.high), high)
        nan = nan | possible & case.nan
    return made(context, low, high, nan=nan, ulps=0)
