"""The builder returns well-formed programs, without dead equations."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

import jaxprgen
from jaxprgen import _jax
from jaxprgen.emit.values import Value
from jaxprgen.errors import EquationError
from jaxprgen.ir import Builder, current_builder, primitives as lax
from jaxprgen.ir.programs import verify

F64 = np.dtype("float64")
VECTOR = _jax.array_type((3,), F64)
HALF = np.asarray(0.5)


def names(closed):
    return [eqn.primitive.name for eqn in closed.jaxpr.eqns]


# --- Verification -----------------------------------------------------------------------


def test_a_program_is_its_equations_in_order():
    b = Builder([VECTOR])
    (x,) = b.inputs
    closed = b.build([lax.add(b, lax.neg(b, x), b.literal(HALF)), x])
    assert str(closed) == (
        "{ lambda ; a:f64[3]. let\n"
        "    b:f64[3] = neg a\n"
        "    c:f64[3] = add b 0.5:f64[]\n"
        "  in (c, a) }"
    )


def test_a_variable_of_another_program_is_refused():
    other = Builder([VECTOR])
    b = Builder([VECTOR])
    lax.exp(b, b.inputs[0])
    with pytest.raises(EquationError, match="returns a variable that it does not bind"):
        b.build([other.inputs[0]])
    out = lax.add(b, b.inputs[0], other.inputs[0])
    with pytest.raises(EquationError, match="add reads a variable that is not bound before it"):
        b.build([out])


def test_a_variable_is_bound_before_it_is_read():
    jaxpr = two_equations().jaxpr
    with pytest.raises(EquationError, match="reads a variable that is not bound before it"):
        verify(closed_with(jaxpr, jaxpr.eqns[::-1]))


def test_a_variable_is_bound_once():
    jaxpr = two_equations().jaxpr
    with pytest.raises(EquationError, match="binds a variable a second time"):
        verify(closed_with(jaxpr, [*jaxpr.eqns, jaxpr.eqns[0]]))
    rebinding = jaxpr.eqns[1].replace(outvars=jaxpr.invars)
    with pytest.raises(EquationError, match="binds a variable a second time"):
        verify(closed_with(jaxpr, [*jaxpr.eqns, rebinding]))


def two_equations():
    b = Builder([VECTOR])
    return b.build([lax.neg(b, lax.exp(b, b.inputs[0]))])


def closed_with(jaxpr, eqns):
    return _jax.closed_jaxpr(jaxpr.invars, jaxpr.outvars, eqns)


def test_jax_checks_types_if_its_checks_are_enabled(monkeypatch):
    b = Builder([VECTOR])
    wrong = _jax.array_type((4,), F64)
    monkeypatch.setattr(_jax, "abstract_eval", lambda *_: ([wrong], _jax.no_effects))
    out = lax.neg(b, b.inputs[0])
    b.build([out])
    with jax.enable_checks(True), pytest.raises(TypeError):
        b.build([out])


def test_a_program_can_be_inlined_any_number_of_times():
    part = two_equations()
    b = Builder([VECTOR])
    x = b.inputs[0]
    for _ in range(2):
        (x,) = b.inline(part, [x])
    closed = b.build([x])
    assert names(closed) == ["exp", "neg"] * 2
    np.testing.assert_allclose(jaxprgen.jaxpr_as_fun(closed)(np.zeros(3))[0], -np.exp(-np.ones(3)))


# --- Dead code ----------------------------------------------------------------------------


def test_dead_equations_and_constants_are_left_out():
    b = Builder([VECTOR])
    (x,) = b.inputs
    used, unused = b.constant(np.ones(3)), b.constant(np.zeros(3))
    lax.exp(b, lax.add(b, x, unused))
    closed = b.build([lax.add(b, x, used)])
    assert names(closed) == ["add"]
    assert [c.tolist() for c in closed.consts] == [[1, 1, 1]]
    assert len(closed.jaxpr.invars) == 1


def test_unused_inputs_stay():
    b = Builder([VECTOR, VECTOR])
    assert len(b.build([b.inputs[1]]).jaxpr.invars) == 2


def test_equations_with_effects_and_their_operands_stay():
    b = Builder([_jax.array_type((), np.dtype(bool)), VECTOR])
    failed, x = b.inputs
    code, params = _jax.check_params(ValueError, "must hold", "", [], 0, ValueError)
    b.bind_multiple(_jax.check_p, (lax.bitwise_not(b, failed), b.literal(code)), params)
    closed = b.build([x])
    assert names(closed) == ["not", "check"]
    assert closed.effects


# --- Literals and constants ---------------------------------------------------------------


def test_a_scalar_is_a_literal_and_an_array_a_constant():
    b = Builder([VECTOR])
    array = np.arange(3.0)
    first, second = b.constant(array), b.constant(array)
    assert first is second
    assert b.constant(array.copy()) is not first
    total = lax.add(b, lax.mul(b, b.inputs[0], first), lax.mul(b, second, b.literal(HALF)))
    closed = b.build([total])
    assert len(closed.consts) == 1
    assert closed.consts[0] is array


@pytest.mark.parametrize("x64", [True, False])
def test_literals_and_constants_have_canonical_dtypes(x64):
    with _jax_enable_x64(x64):
        b = Builder()
        for dtype in ("int64", "uint64", "float64", "complex128", "float16", "bool"):
            expected = jax.dtypes.canonicalize_dtype(dtype)
            literal = b.literal(np.ones((), dtype))
            assert (literal.aval.dtype, literal.val.dtype) == (expected, expected)
            assert not literal.aval.weak_type
            assert b.constant(np.ones(3, dtype)).aval.dtype == expected


def _jax_enable_x64(on):
    return jax.enable_x64(on) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64(on)


# --- JAX's typing rules -------------------------------------------------------------------


def test_jax_infers_types_once_for_equations_alike(monkeypatch):
    asked, infer = [], _jax.abstract_eval
    monkeypatch.setattr(_jax, "abstract_eval", lambda *x: [asked.append(x[0].name), infer(*x)][1])
    b = Builder([VECTOR, VECTOR, _jax.array_type((), F64)])
    x, y, z = b.inputs
    for _ in range(2):
        assert lax.add(b, x, y).aval == lax.add(b, y, y).aval == VECTOR
        assert lax.add(b, z, z).aval == z.aval
        lax.integer_pow(b, x, 2), lax.integer_pow(b, x, 3)
    assert asked == ["add", "add", "integer_pow", "integer_pow"]


def test_a_parameter_need_not_be_hashable():
    b = Builder([VECTOR])
    assert (
        b.bind(
            _jax.primitive("reduce_sum"),
            b.inputs,
            {"axes": [0], **_jax.default_params("reduce_sum")},
        ).aval.shape
        == ()
    )


def test_equations_that_jax_refuses_raise_an_equation_error():
    b = Builder([VECTOR])
    with pytest.raises(EquationError) as caught:
        lax.rev(b, b.inputs[0], (1,))
    assert str(caught.value).startswith("JAX refuses rev on (float64[3]): ")


# --- Under a mesh -------------------------------------------------------------------------


def under_shard_map(emit, check_vma=True):
    """Return the program that ``emit(builder, x)`` makes for an ``x`` that varies over devices."""
    mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
    made = []

    def body(x):
        b = Builder([_jax.type_of(x)])
        made.append(b.build([emit(b, b.inputs[0])]))
        _jax.check_jaxpr(made[0].jaxpr)
        return jaxprgen.jaxpr_as_fun(made[0])(x)[0]

    spec = PartitionSpec("i")
    mapped = jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=check_vma)
    return made, np.asarray(mapped(np.arange(6.0)))


def third_of_iota(b):
    return lax.div(b, lax.iota(b, F64, (3,), 0), b.literal(np.asarray(3.0)))


CASTING = {
    "literal": lambda b, x: lax.add(b, x, b.literal(np.asarray(1.0))),
    "constant": lambda b, x: lax.add(b, x, b.constant(np.ones(3))),
    "iota": lambda b, x: lax.add(b, x, lax.exp(b, lax.floor(b, third_of_iota(b)))),
}


@pytest.mark.parametrize("emit", CASTING.values(), ids=CASTING)
def test_replicated_operands_are_cast_to_vary_like_others(emit):
    (closed,), value = under_shard_map(emit)
    np.testing.assert_array_equal(value, np.arange(6.0) + 1)
    assert names(closed).count(_jax.pvary_p.name) == 1
    assert _jax.varying_axes(closed.jaxpr.outvars[0].aval) == {"i"}


def test_a_variable_is_cast_once():
    def emit(b, x):
        ones = b.constant(np.ones(3))
        return lax.add(b, lax.mul(b, x, ones), lax.sub(b, ones, b.constant(np.zeros(3))))

    (closed,), value = under_shard_map(emit)
    np.testing.assert_array_equal(value, np.arange(6.0) + 1)
    assert names(closed).count(_jax.pvary_p.name) == 2  # The ones, and their difference from zeros.


def test_nothing_is_cast_if_jax_does_not_check_varying_axes():
    for emit in CASTING.values():
        (closed,), _ = under_shard_map(emit, check_vma=False)
        assert _jax.pvary_p.name not in names(closed)


def test_a_value_outside_of_a_builder_is_refused():
    with Builder([VECTOR]) as b:
        x = Value(b.inputs[0])
        assert current_builder() is b
    with pytest.raises(EquationError, match="No builder is at hand to append an equation to"):
        x + x
    assert len(b) == 0
