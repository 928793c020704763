"""Rows for the loops and branches of `jaxprgen.ir.primitives.control`."""

from __future__ import annotations

from typing import Any

import numpy as np
from constructor_law import SHAPES, Call, Row, array, dtypes
from hypothesis import strategies as st
from jax import lax

from jaxprgen import _jax
from jaxprgen.ir import Builder, primitives


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


ROWS: dict[str, Row] = {
    "while_loop": Row(
        lax_loop, st.builds(lambda d, s: Call((array("int32"), array(d, *s))), dtypes, SHAPES), loop
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
