"""The law of constructors: they make the equations of `jax.lax`, and refuse what JAX refuses.

The files ``*_rows.py`` beside this one hold a table per family; `test_primitives` asserts the law.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from hypothesis import strategies as st
from laws import DTYPES

from jaxprgen import _jax
from jaxprgen.errors import EquationError
from jaxprgen.ir import Builder, primitives

# --- The law ------------------------------------------------------------------------------


class Call(NamedTuple):
    """Operand types, and the keyword arguments of our constructor and of JAX's function."""

    types: tuple[jax.ShapeDtypeStruct, ...]
    options: dict[str, Any] = {}  # noqa: RUF012


class Row(NamedTuple):
    """JAX's function for a constructor, and calls that both should accept or both refuse.

    Attributes
    ----------
    theirs : callable
        JAX's function.
    calls : strategy of Call
        The calls to try.
    ours : callable, optional
        How to call the constructor; by default with the operands of the call.
    stricter : callable
        Whether the constructor refuses, on purpose, a call that JAX accepts.
    outside : callable
        Whether a call is outside of the law, because JAX's function refuses or converts what the
        primitive takes.
    among : bool
        Whether JAX's function makes other equations besides.
    """

    theirs: Callable[..., Any]
    calls: st.SearchStrategy[Call]
    ours: Callable[..., Any] | None = None
    stricter: Callable[[Call], bool] = lambda call: False
    outside: Callable[[Call], bool] = lambda call: False
    among: bool = False


def emitted(construct: Callable[..., Any], call: Call) -> Any:
    """Return the constructor's equation, whose types JAX's checker accepts; None if refused."""
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
    """Return JAX's program, or None if JAX refuses the call."""
    try:
        return jax.make_jaxpr(functools.partial(function, **call.options))(*call.types)
    except (TypeError, ValueError, IndexError):
        return None


def assert_same_equation(ours: Any, theirs: Any) -> None:
    assert ours.primitive is theirs.primitive
    assert list(ours.params) == list(theirs.params)
    for key, value in theirs.params.items():
        mine = ours.params[key]
        if isinstance(value, (_jax.ClosedJaxpr, _jax.Jaxpr)) or key == "branches":
            assert (type(mine), str(mine)) == (type(value), str(value)), key
        else:
            assert (type(mine), mine) == (type(value), value), key
    assert [v.aval for v in ours.outvars] == [v.aval for v in theirs.outvars]
    assert ours.effects == theirs.effects


def check(name: str, row: Row, call: Call) -> bool:
    """Assert the law for one call, and return whether the constructor and JAX accept it."""
    if row.outside(call):
        return False
    ours = emitted(row.ours or getattr(primitives, name), call)
    if row.stricter(call):
        assert ours is None
        return False
    theirs = traced(row.theirs, call)
    assert (ours is None) == (theirs is None), (ours, theirs)
    if ours is None:
        return False
    equations = theirs.jaxpr.eqns
    if row.among:
        inner = [getattr(e.params.get("jaxpr"), "eqns", [e]) for e in equations]
        equations = [e for eqns in inner for e in eqns if e.primitive is ours.primitive]
        assert equations
    if equations:
        assert_same_equation(ours, equations[-1])
    else:  # `lax` leaves out equations that change nothing; here that is up to the caller.
        assert [v.aval for v in ours.outvars] == theirs.out_avals
    return True


# --- Calls ----------------------------------------------------------------------------------

SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
ALL = [np.dtype(d) for d in DTYPES]
dtypes = st.sampled_from(ALL)


def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


@st.composite
def one(draw: Any, options: Callable[[Any, tuple[int, ...]], dict[str, Any]]) -> Call:
    """One operand, and options that depend on its shape."""
    x = array(draw(dtypes), *draw(SHAPES))
    return Call((x,), options(draw, x.shape))


def axes_of(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Mostly distinct axes of a shape; sometimes one twice, or one too high."""
    rank = len(shape)
    good = st.lists(st.integers(0, rank - 1), unique=True) if rank else st.just([])
    return tuple(draw(good | good | st.lists(st.integers(0, rank), max_size=3)))


def in_range(axes: Sequence[int], x: Any) -> Sequence[int]:
    """Return the axes, but refuse negative ones, which JAX accepts."""
    if any(not 0 <= d < x.ndim for d in axes):
        raise ValueError
    return axes


def mixed(call: Call) -> bool:
    return len({t.dtype for t in call.types}) > 1
