"""`custom_jvp_call` makes the equation that `jax.custom_jvp` makes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jaxprgen import _jax
from jaxprgen.api import jaxpr_as_fun
from jaxprgen.ir import Builder, primitives


@jax.custom_jvp
def theirs(x: Any, y: Any) -> Any:
    return jax.lax.mul(x, y)


@theirs.defjvp
def _(primals: Any, tangents: Any) -> Any:
    raise NotImplementedError


def ours(types: Any, asked: list[tuple[bool, ...]]) -> Any:
    """Return a program of ``x * y`` with a rule that returns 3 times the tangent of ``x``."""
    b = Builder(types)
    inner = b.nested(types)

    def derivative(*zeros: bool) -> Any:
        asked.append(zeros)
        program = Builder([*types, types[0]])
        x, y, tangent = program.inputs
        three = program.literal(np.asarray(3, tangent.aval.dtype))
        outputs = [primitives.mul(program, x, y), primitives.mul(program, tangent, three)]
        return program.build(outputs), (False,)

    program = inner.build([primitives.mul(inner, *inner.inputs)])
    return b.build(primitives.custom_jvp_call(b, program, derivative, b.inputs))


@pytest.mark.parametrize(
    ("dtype", "shape"), [("float64", ()), ("float32", (2, 3)), ("float16", (0,))]
)
def test_equations_and_types_are_those_of_jax(dtype, shape):
    types = [_jax.array_type(shape, np.dtype(dtype))] * 2
    closed = ours(types, [])
    _jax.check_jaxpr(closed.jaxpr)
    (mine,), (yours,) = closed.jaxpr.eqns, jax.make_jaxpr(theirs)(*types).jaxpr.eqns
    assert mine.primitive is yours.primitive
    assert set(mine.params) == set(yours.params)
    assert str(mine.params["call_jaxpr"]) == str(yours.params["call_jaxpr"])
    assert mine.params["num_consts"] == yours.params["num_consts"]
    assert [v.aval for v in mine.outvars] == [v.aval for v in yours.outvars]
    assert mine.effects == yours.effects


def test_jax_calls_the_rule_when_it_differentiates():
    asked: list[tuple[bool, ...]] = []
    f = jaxpr_as_fun(ours([_jax.array_type((), np.dtype("float64"))] * 2, asked))
    x, y = np.float64(2), np.float64(5)
    assert f(x, y) == [10.0]
    assert asked == []
    assert jax.grad(lambda x: f(x, y)[0])(x) == 3
    assert jax.jit(jax.vmap(jax.grad(lambda x: f(x, y)[0])))(np.ones(2)).tolist() == [3, 3]
    assert set(asked) == {(False, True)}
