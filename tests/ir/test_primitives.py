"""Every constructor makes the equation that the `jax.lax` function of the installed JAX makes."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from jax import lax
from laws import DTYPES
from profiles import examples

from jaxprgen import _jax
from jaxprgen.errors import EquationError
from jaxprgen.ir import Builder, primitives
from jaxprgen.ir.primitives import (
    convolution,
    decompositions,
    derivatives,
    gathering,
    kinds,
    ordering,
    random,
    windows,
)

# --- The law ------------------------------------------------------------------------------


class Call(NamedTuple):
    """Operand types, and the keyword arguments for our constructor and for JAX's function."""

    types: tuple[jax.ShapeDtypeStruct, ...]
    options: dict[str, Any] = {}  # noqa: RUF012


class Row(NamedTuple):
    """JAX's function beside a constructor, and calls that both should judge alike."""

    theirs: Callable[..., Any]
    calls: st.SearchStrategy[Call]
    ours: Callable[..., Any] | None = None
    stricter: Callable[[Call], bool] = lambda call: False
    """Calls that JAX takes, and the constructor refuses on purpose."""


def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def emitted(construct: Callable[..., Any], call: Call) -> Any:
    """The constructor's equation, or None if it refuses; JAX's checker agrees with its types."""
    b = Builder([_jax.array_type(t.shape, t.dtype) for t in call.types])
    try:
        out = construct(b, *b.inputs, **call.options)
    except EquationError:
        return None
    closed = b.build(out if isinstance(out, list) else [out])
    _jax.check_jaxpr(closed.jaxpr)
    (eqn,) = closed.jaxpr.eqns
    return eqn


def traced(function: Callable[..., Any], call: Call) -> Any:
    """JAX's program, or None if JAX refuses."""
    try:
        return jax.make_jaxpr(functools.partial(function, **call.options))(*call.types)
    except (TypeError, ValueError, IndexError):
        return None


def assert_same_equation(ours: Any, theirs: Any) -> None:
    assert ours.primitive is theirs.primitive
    assert list(ours.params) == list(theirs.params)
    for key, value in theirs.params.items():
        mine = ours.params[key]
        if isinstance(value, _jax.ClosedJaxpr) or key == "branches":
            assert str(mine) == str(value)
        else:
            assert (type(mine), mine) == (type(value), value), key
    assert [v.aval for v in ours.outvars] == [v.aval for v in theirs.outvars]
    assert ours.effects == theirs.effects


def check(name: str, call: Call, rows: dict[str, Row] | None = None) -> bool:
    """Whether both take the call; that one does and the other does not is an error."""
    row = (ROWS if rows is None else rows)[name]
    ours = emitted(row.ours or getattr(primitives, name), call)
    if row.stricter(call):
        assert ours is None
        return False
    theirs = traced(row.theirs, call)
    assert (ours is None) == (theirs is None), (ours, theirs)
    if ours is None:
        return False
    if theirs.jaxpr.eqns:
        assert_same_equation(ours, theirs.jaxpr.eqns[-1])
    else:  # `lax` leaves out what changes nothing; leaving it to the caller is ours.
        assert [v.aval for v in ours.outvars] == theirs.out_avals
    return True


# --- What to call them with ---------------------------------------------------------------

SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
ALL = [np.dtype(d) for d in DTYPES]
dtypes = st.sampled_from(ALL)


@st.composite
def nary(draw: Any, arity: int) -> Call:
    """Operands that mostly agree: in dtype, and in shape up to sizes of one and scalars."""
    dtype, shape = draw(dtypes), draw(SHAPES)

    def operand() -> jax.ShapeDtypeStruct:
        kind = draw(st.sampled_from(["same", "same", "one", "scalar", "other", "dtype"]))
        if kind == "one":
            return array(dtype, *(draw(st.sampled_from([1, n])) for n in shape))
        if kind == "scalar":
            return array(dtype)
        if kind == "other":
            return array(dtype, *draw(SHAPES))
        return array(draw(dtypes) if kind == "dtype" else dtype, *shape)

    return Call(tuple(operand() for _ in range(arity)))


def mixed(call: Call) -> bool:
    return len({t.dtype for t in call.types}) > 1


def elementwise(arity: int, function: Callable[..., Any], **more: Any) -> Row:
    return Row(function, nary(arity), **more)


@st.composite
def one(draw: Any, options: Callable[[Any, tuple[int, ...]], dict[str, Any]]) -> Call:
    """One operand, and options that depend on its shape."""
    x = array(draw(dtypes), *draw(SHAPES))
    return Call((x,), options(draw, x.shape))


def axes_of(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Mostly different axes of a shape, now and then one twice or one too high."""
    rank = len(shape)
    good = st.lists(st.integers(0, rank - 1), unique=True) if rank else st.just([])
    return tuple(draw(good | good | st.lists(st.integers(0, rank), max_size=3)))


def sizes_near(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    same_size = [shape, shape[::-1], (math.prod(shape),), (1, *shape)]
    return draw(st.sampled_from(same_size) | SHAPES)


def slice_options(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    bounds = [sorted(draw(st.tuples(*[st.integers(0, n + (n == 3))] * 2))) for n in shape]
    return {
        "start": [low for low, _ in bounds],
        "limit": [high for _, high in bounds],
        "strides": [draw(st.sampled_from([1, 1, 2])) for _ in shape],
    }


def broadcast_options(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    target, where = [], []
    for n in shape:  # The operand's sizes, or what a size of one becomes, between new ones.
        target += draw(st.lists(st.integers(0, 3), max_size=1))
        where.append(len(target))
        target.append(draw(st.integers(0, 3)) if n == 1 else n)
    if where and draw(st.sampled_from([False, False, False, True])):
        where[draw(st.integers(0, len(where) - 1))] = draw(st.integers(0, len(target)))
    return {"shape": tuple(target), "dimensions": tuple(where)}


def pad_options(draw: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    edge = st.integers(-1, 2)
    return {"config": [(draw(edge), draw(edge), draw(st.integers(0, 2))) for _ in shape]}


@st.composite
def padded(draw: Any) -> Call:
    call = draw(one(pad_options))
    return Call((call.types[0], array(call.types[0].dtype)), call.options)


@st.composite
def blocks(draw: Any, *, update: bool) -> Call:
    x = array(draw(dtypes), *draw(SHAPES))
    sizes = tuple(draw(st.integers(0, n + (n == 3))) for n in x.shape)
    index = draw(st.sampled_from(["int32", "int64", "uint8"]))
    start = tuple(array(index) for _ in x.shape)
    if update:
        return Call((x, array(x.dtype, *sizes), *start))
    return Call((x, *start), {"sizes": sizes})


@st.composite
def joined(draw: Any) -> Call:
    first = draw(SHAPES.filter(bool))
    dimension = draw(st.integers(0, len(first) - 1))
    dtype = draw(dtypes)
    others = [
        (*first[:dimension], draw(st.integers(0, 3)), *first[dimension + 1 :])
        for _ in range(draw(st.integers(1, 3)))
    ]
    if draw(st.sampled_from([False, False, False, True])):
        others.append(draw(SHAPES))
    last = draw(st.sampled_from([dtype, dtype, dtype, np.dtype("float32")]))
    types = (array(last, *first), *(array(dtype, *s) for s in others))
    return Call(types, {"dimension": dimension})


@st.composite
def chosen(draw: Any) -> Call:
    shape, dtype = draw(SHAPES), draw(dtypes)
    which = array(
        draw(st.sampled_from(["bool", "bool", "int32", "int64"])),
        *draw(st.sampled_from([shape, (), (1,)])),
    )
    count = draw(st.sampled_from([2, 2, 3]))
    cases = [array(dtype, *shape) for _ in range(count)]
    if draw(st.sampled_from([False, False, True])):
        cases[-1] = array(draw(dtypes), *draw(SHAPES))
    return Call((which, *cases))


@st.composite
def clamped(draw: Any) -> Call:
    shape, dtype = draw(SHAPES), draw(dtypes)
    bounds = st.sampled_from([shape, shape, (), (2,)])
    low, high = array(dtype, *draw(bounds)), array(dtype, *draw(bounds))
    return Call((low, array(dtype, *shape), high))


@st.composite
def contracted(draw: Any) -> Call:
    dtype = draw(dtypes)
    batch, summed, left, right = (draw(st.lists(st.integers(0, 3), max_size=2)) for _ in range(4))
    bx, cx = range(len(batch)), range(len(batch), len(batch) + len(summed))
    by = range(len(right), len(right) + len(batch))
    cy = range(by.stop, by.stop + len(summed))
    x, y = array(dtype, *batch, *summed, *left), array(dtype, *right, *batch, *summed)
    if draw(st.sampled_from([False, False, False, True])):
        y = array(draw(dtypes), *draw(st.permutations(y.shape)))
    return Call((x, y), {"contract": (cx, cy), "batch": (bx, by)})


def ranged(draw: Any) -> Call:
    shape = draw(SHAPES)
    dimension = draw(st.integers(0, len(shape)))
    return Call((), {"dtype": draw(dtypes), "shape": shape, "dimension": dimension})


def loop(b: Builder, i: Any, x: Any) -> list[Any]:
    """``while i < 3: i, x = i + 1, x * x``, given the two jaxprs."""
    types = [i.aval, x.aval]
    condition, body = Builder(types), Builder(types)
    three, step = (np.asarray(n, i.aval.dtype) for n in (3, 1))
    less = primitives.lt(condition, condition.inputs[0], condition.literal(three))
    ahead = primitives.add(body, body.inputs[0], body.literal(step))
    product = primitives.mul(body, body.inputs[1], body.inputs[1])
    return primitives.while_loop(b, condition.build([less]), body.build([ahead, product]), [i, x])


def lax_loop(i: Any, x: Any) -> Any:
    three, step = (np.asarray(n, i.dtype)[()] for n in (3, 1))
    return lax.while_loop(
        lambda c: lax.lt(c[0], three), lambda c: (lax.add(c[0], step), lax.mul(c[1], c[1])), (i, x)
    )


def scanned(b: Builder, k: Any, c: Any, x: Any) -> list[Any]:
    """``c, y = c + k * x[i], c * x[i]`` for each ``i``."""
    body = Builder([k.aval, c.aval, _jax.slice_type(x.aval)])
    inner_k, inner_c, inner_x = body.inputs
    product = primitives.mul(body, inner_k, inner_x)
    out = [primitives.add(body, inner_c, product), primitives.mul(body, inner_c, inner_x)]
    return primitives.scan(b, body.build(out), [k], [c], [x], 2)


def lax_scan(k: Any, c: Any, x: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        product = lax.mul(k, x)
        return lax.add(c, product), lax.mul(c, x)

    return lax.scan(step, c, x)


def branching(b: Builder, i: Any, x: Any) -> list[Any]:
    """``x * x if i else x``."""
    then, otherwise = Builder([x.aval]), Builder([x.aval])
    square = then.build([primitives.mul(then, *then.inputs * 2)])
    return primitives.cond(b, i, [otherwise.build(otherwise.inputs), square], [x])


def in_range(axes: Any, x: Any) -> Any:
    """The axes, none of them counted from the end."""
    if any(not 0 <= d < x.ndim for d in axes):
        raise ValueError
    return axes


def is_complex_to_real(call: Call) -> bool:
    return call.types[0].dtype.kind == "c" != call.options["dtype"].kind


def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axes: function(x, in_range(axes, x))


def not_ascending(call: Call) -> bool:
    dimensions = call.options["dimensions"]
    return sorted(set(dimensions)) != list(dimensions)


def chosen_by_int64(call: Call) -> bool:
    return call.types[0].dtype == np.int64


def repeats_axis(call: Call) -> bool:
    return len(set(call.options["axes"])) < len(call.options["axes"])


def changes_size(call: Call) -> bool:
    return math.prod(call.options["shape"]) != math.prod(call.types[0].shape)


# --- The table ----------------------------------------------------------------------------

_NAMES = {
    "unary": """neg sign floor ceil exp exp2 expm1 log log1p sqrt rsqrt cbrt logistic square sin cos
        tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erf_inv lgamma digamma
        bessel_i0e bessel_i1e bitwise_not is_finite abs real imag""",
    "binary": """add sub mul div rem max min atan2
        bitwise_and bitwise_or bitwise_xor shift_right_logical eq ne lt le gt ge""",
    "reduction": "reduce_sum reduce_prod reduce_max reduce_min reduce_and reduce_or reduce_xor",
}
UNARY, BINARY, REDUCTIONS = (names.split() for names in _NAMES.values())
ROUNDING = {
    True: lax.RoundingMethod.TO_NEAREST_EVEN,
    False: lax.RoundingMethod.AWAY_FROM_ZERO,
}

ROWS: dict[str, Row] = {
    **{name: elementwise(1, getattr(lax, name)) for name in UNARY},
    **{name: elementwise(2, getattr(lax, name)) for name in BINARY},
    **{
        name: Row(
            reduction(getattr(lax, name)),
            one(lambda draw, shape: {"axes": axes_of(draw, shape)}),
            stricter=repeats_axis,
        )
        for name in REDUCTIONS
    },
    # JAX's takes an exponent of another dtype as well.
    "pow": elementwise(2, lax.pow, stricter=mixed),
    # Of a real array `lax.conj` makes a complex one.
    "conj": elementwise(1, lax.conj, stricter=lambda call: call.types[0].dtype.kind != "c"),
    "complex": elementwise(2, lax.complex),
    "integer_pow": Row(
        lambda x, y: lax.integer_pow(x, y),
        one(lambda draw, shape: {"y": draw(st.sampled_from([-3, -1, 2, 3, 7]))}),
    ),
    "round": Row(
        lambda x, half_to_even: lax.round(x, ROUNDING[half_to_even]),
        one(lambda draw, shape: {"half_to_even": draw(st.booleans())}),
    ),
    "select_n": Row(lax.select_n, chosen(), stricter=chosen_by_int64),
    "clamp": Row(lax.clamp, clamped()),
    "bitcast_convert_type": Row(
        lambda x, dtype: lax.bitcast_convert_type(x, dtype),
        one(lambda draw, shape: {"dtype": np.dtype(draw(dtypes))}),
        stricter=lambda call: (
            np.dtype(call.types[0].dtype).itemsize != call.options["dtype"].itemsize
        ),
    ),
    "convert_element_type": Row(
        lambda x, dtype: lax.convert_element_type(x, dtype),
        one(lambda draw, shape: {"dtype": draw(dtypes)}),
        stricter=is_complex_to_real,
    ),
    "stop_gradient": elementwise(1, lax.stop_gradient),
    "broadcast_in_dim": Row(
        lambda x, shape, dimensions: lax.broadcast_in_dim(x, shape, dimensions),
        one(broadcast_options),
        stricter=not_ascending,
    ),
    "optimization_barrier": Row(lax.optimization_barrier, one(lambda draw, shape: {})),
    "reshape": Row(
        lambda x, shape: lax.reshape(x, shape),
        one(lambda draw, shape: {"shape": sizes_near(draw, shape)}),
        stricter=changes_size,
    ),
    "squeeze": Row(
        lambda x, dimensions: lax.squeeze(x, in_range(dimensions, x)),
        one(lambda draw, shape: {"dimensions": axes_of(draw, shape)}),
    ),
    "transpose": Row(
        lambda x, permutation: lax.transpose(x, permutation),
        one(lambda draw, shape: {"permutation": axes_of(draw, shape)}),
    ),
    "rev": Row(
        lambda x, dimensions: lax.rev(x, in_range(dimensions, x)),
        one(lambda draw, shape: {"dimensions": axes_of(draw, shape)}),
    ),
    "slice": Row(
        lambda x, start, limit, strides: lax.slice(
            x, start, limit, None if all(n == 1 for n in strides) else strides
        ),
        one(slice_options),
    ),
    "dynamic_slice": Row(
        lambda x, *start, sizes: lax.dynamic_slice(x, start, sizes),
        blocks(update=False),
        lambda b, x, *start, sizes: primitives.dynamic_slice(b, x, start, sizes),
    ),
    "dynamic_update_slice": Row(
        lambda x, y, *start: lax.dynamic_update_slice(x, y, start),
        blocks(update=True),
        lambda b, x, y, *start: primitives.dynamic_update_slice(b, x, y, start),
    ),
    "pad": Row(lambda x, value, config: lax.pad(x, value, config), padded()),
    "concatenate": Row(
        lambda *xs, dimension: lax.concatenate(xs, dimension),
        joined(),
        lambda b, *xs, dimension: primitives.concatenate(b, xs, dimension),
    ),
    "iota": Row(
        lambda dtype, shape, dimension: lax.broadcasted_iota(dtype, shape, dimension),
        st.composite(ranged)(),
    ),
    "argmax": Row(
        lambda x, axis, dtype: lax.argmax(x, axis, dtype),
        one(
            lambda draw, shape: {
                "axis": draw(st.integers(0, len(shape))),
                "dtype": np.dtype(draw(st.sampled_from(["int32", "int64"]))),
            }
        ),
    ),
    # As `jax.numpy` asks for products: in the operands' dtype.
    "dot_general": Row(
        lambda x, y, contract, batch: lax.dot_general(
            x, y, (contract, batch), preferred_element_type=x.dtype
        ),
        contracted(),
        stricter=mixed,
    ),
    "while_loop": Row(
        lax_loop,
        st.builds(lambda d, s: Call((array("int32"), array(d, *s))), dtypes, SHAPES),
        loop,
    ),
    "cond": Row(
        lambda i, x: lax.switch(i, [lambda x: x, lambda x: lax.mul(x, x)], x),
        st.builds(lambda d, s: Call((array("int32"), array(d, *s))), dtypes, SHAPES),
        branching,
    ),
    "scan": Row(
        lax_scan,
        st.builds(lambda d, s: Call((array(d, *s), array(d, *s), array(d, 2, *s))), dtypes, SHAPES),
        scanned,
    ),
}

# No constructors, or in a table of their own, in a file beside this one.
ELSEWHERE = tuple(
    m.__name__
    for m in (convolution, decompositions, derivatives, gathering, kinds, ordering, random, windows)
)
CONSTRUCTORS = [
    name
    for name, f in vars(primitives).items()
    if inspect.isfunction(f)
    and not name.startswith("_")
    and f.__module__.startswith(primitives.__name__)
    and f.__module__ not in ELSEWHERE
]


def test_every_constructor_is_in_the_table():
    assert sorted(ROWS) == sorted(CONSTRUCTORS)


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_equations_and_types_are_those_of_lax(name):
    @examples(3)
    @given(ROWS[name].calls)
    def law(call):
        check(name, call)

    law()
    # One that is taken exists, so that the law says something.
    find(ROWS[name].calls, lambda call: check(name, call), settings=examples(20, database=None))


@pytest.mark.parametrize("precision", [None, "float32", "F32_F32_F32"])
def test_precision_of_products_is_the_user_s(precision):
    x, axes = array("float32", 2, 2), ((1,), (0,))
    with jax.default_matmul_precision(precision):
        assert check("dot_general", Call((x, x), {"contract": axes, "batch": ((), ())}))


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_dtypes_are_those_of_lax(name):
    arity = 1 if name in UNARY else 2
    for dtype in ALL:
        check(name, Call((array(dtype, 2, 3),) * arity))
