"""Every constructor makes the equation that the `jax.lax` function of the installed JAX makes."""

from __future__ import annotations

import inspect

import control_rows
import elementwise_rows
import jax
import linear_algebra_rows
import numpy as np
import pytest
import reduction_rows
import structural_rows
from constructor_law import ALL, Call, array, check
from elementwise_rows import BINARY, UNARY
from hypothesis import Phase, find, given
from profiles import amount, examples

from jaxprgen import _jax
from jaxprgen.ir import Builder, primitives
from jaxprgen.ir.primitives import appending, random

ROWS = {
    **elementwise_rows.ROWS,
    **structural_rows.ROWS,
    **reduction_rows.ROWS,
    **linear_algebra_rows.ROWS,
    **control_rows.ROWS,
}
TESTED_ELSEWHERE = {
    *("gather", "scatter", "scatter_add", "custom_jvp_call"),
    *("dim_as_value", "shape_assertion"),  # Of symbolic sizes.
    *("broadcast_to", "full"),  # Spellings of `broadcast_in_dim`.
    *vars(random),
}
CONSTRUCTORS = [
    name
    for name, f in vars(primitives).items()
    if inspect.isfunction(f)
    and f.__module__.startswith(primitives.__name__)
    and f.__module__ != appending.__name__
    and name not in TESTED_ELSEWHERE
]


def test_every_constructor_has_a_row():
    assert sorted(ROWS) == sorted(CONSTRUCTORS)


@pytest.mark.parametrize("name", ROWS)
def test_equations_and_types_are_those_of_lax(name):
    row = ROWS[name]

    accepted = []

    @examples(amount(quick=1, deep=3))
    @given(row.calls)
    def law(call):
        accepted.append(check(name, row, call))

    law()
    if not any(accepted):  # The law would be empty if no call was accepted.
        unshrunk = examples(20, database=None, phases=[Phase.generate])
        find(row.calls, lambda call: check(name, row, call), settings=unshrunk)


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_dtypes_are_those_of_lax(name):
    arity = 1 if name in UNARY else 2
    for dtype in ALL:
        check(name, ROWS[name], Call((array(dtype, 2, 3),) * arity))


PRECISE = {
    "dot_general": {"contract": ((1,), (0,)), "batch": ((), ())},
    "conv_general_dilated": {"strides": (), "padding": ()},
}


@pytest.mark.parametrize("precision", [None, "float32", "highest", "F32_F32_F32"])
@pytest.mark.parametrize("name", PRECISE)
def test_products_have_the_precision_that_the_user_sets(name, precision):
    call = Call((array("float32", 2, 2),) * 2, PRECISE[name])
    with jax.default_matmul_precision(precision):
        assert check(name, ROWS[name], call)


def test_a_callback_is_that_of_jax():
    theirs = jax.make_jaxpr(lambda x: jax.debug.callback(print, x, ordered=True))(1.0).jaxpr
    b = Builder([_jax.array_type((), np.dtype("float64"))])
    assert b.bind_multiple(_jax.debug_callback_p, b.inputs, _jax.debug_callback_params(print)) == []
    (ours,), (wanted,) = b.build([]).jaxpr.eqns, theirs.eqns
    assert ours.primitive is wanted.primitive
    assert ours.effects == wanted.effects
    assert list(ours.params) == list(wanted.params)
    assert {**ours.params, "callback": None} == {**wanted.params, "callback": None}
