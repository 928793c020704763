"""Shardings that do not fit raise an error that names the variable and says what to do."""

from __future__ import annotations

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

import jaxprgen
from jaxprgen.arguments.shardings import PortableSharding
from jaxprgen.errors import (
    ArgumentShapeError,
    ArgumentTypeError,
    InvalidGraphError,
    ShardingError,
    SharedValueWarning,
)

MESH = jax.make_mesh((4, 2), ("rows", "cols"), axis_types=(AxisType.Auto,) * 2)
ROWS, BOTH, WHOLE = (NamedSharding(MESH, spec) for spec in (P("rows"), P("rows", "cols"), P()))
DATA = np.arange(48.0).reshape(8, 6)

x, m = at.dmatrices("x", "m")
b = at.dvector("b")
residual = (x @ b).copy(name="residual")

PARTS = "PartitionSpec('rows')"
ERRORS = {
    "no mesh": (
        {x: P("rows")},
        f"shardings: input 'x', float64[?, ?], cannot be split by {PARTS}: no mesh is set.\n"
        "Compile it within jax.set_mesh(mesh), or give jax.sharding.NamedSharding(mesh, "
        f"{PARTS}).",
    ),
    "unknown axis": (
        {x: P("lines"), b: WHOLE},
        "shardings: input 'x', float64[?, ?], cannot be split by PartitionSpec('lines') on the "
        "mesh of 'rows': 4, 'cols': 2, which has no axis 'lines'.\nName one that it has.",
    ),
    "too many axes": (
        {b: BOTH},
        "shardings: input 'b', float64[?], cannot be split by PartitionSpec('rows', 'cols') on the "
        "mesh of 'rows': 4, 'cols': 2: it has 1 dimension, the spec 2.\nGive at most one entry for "
        "each dimension.",
    ),
    "an axis twice": (
        {x: P("rows", "rows"), b: WHOLE},
        "shardings: input 'x', float64[?, ?], cannot be split by PartitionSpec('rows', 'rows') on "
        "the mesh of 'rows': 4, 'cols': 2: an axis comes twice.\nSplit one dimension along each "
        "axis.",
    ),
    "nowhere": (
        {x: P(P.UNCONSTRAINED), b: WHOLE},
        "shardings: input 'x', float64[?, ?], cannot be split by PartitionSpec(UNCONSTRAINED) on "
        "the mesh of 'rows': 4, 'cols': 2: data lives somewhere.\nGive axes or None for "
        "UNCONSTRAINED.",
    ),
    "unknown name": (
        {"weights": ROWS},
        "shardings: 'weights' is not an input, an output, a shared variable or a constant of this "
        "graph.",
    ),
    "unknown variable": (
        {m: ROWS},
        "shardings: m is not an input, an output, a shared variable or a constant of this graph.",
    ),
    "no sharding": (
        {x: "rows"},
        "shardings: input 'x' got 'rows'. Give a jax.sharding.PartitionSpec, or a NamedSharding of "
        "a mesh and a PartitionSpec.",
    ),
}


@pytest.mark.parametrize(("shardings", "text"), ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_split_is_refused(shardings, text):
    kinds = (ShardingError, InvalidGraphError, ArgumentTypeError)
    for make in (jaxprgen.compile, jaxprgen.function):
        with pytest.raises(kinds) as caught:
            make([x, b], [residual], shardings=shardings)
        assert str(caught.value) == text


UNEVEN = (
    "{} has shape (9, 6), which PartitionSpec('rows') on the mesh of 'rows': 4, 'cols': 2 cannot "
    "split evenly: 4 does not divide 9, the size along axis 0.\nPad it to a size of 12, or split "
    "another axis."
)


def test_sizes_that_the_mesh_does_not_divide_are_refused():
    uneven = np.zeros((9, 6))
    y = (x * 2).copy(name="y")
    shared = aesara.shared(uneven, name="held")
    constant = at.constant(uneven, name="fixed")
    for what, variable, graph in [
        ("Input 'x'", x, ([x], y)),
        ("Output 'y'", y, ([x], y)),
        ("Shared variable 'held'", shared, ([], shared + 1)),
        ("Constant 'fixed'", constant, ([], constant + 1)),
    ]:
        with pytest.raises(ShardingError) as caught:
            jaxprgen.compile(*graph, shardings={variable: ROWS})(*([uneven] if graph[0] else []))
        assert str(caught.value) == UNEVEN.format(what)
    with pytest.raises(ShardingError, match="Input 'x' has shape"):
        jax.jit(jaxprgen.compile([x], y, shardings={x: ROWS}))(uneven)


COPIED = (
    "JAX traces 'main', and would copy {} into the program that it makes, such as that of an outer "
    "jit: an array of shape (8, 6) that 8 devices hold in parts.\n{}\n"
    "Or set JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS=1 in the environment before JAX is imported: JAX "
    "then makes arguments of such arrays."
)


@pytest.mark.parametrize("make", [jaxprgen.compile, jaxprgen.function])
def test_programs_around_do_not_get_a_copy_of_the_data(make):
    array = jax.device_put(DATA, ROWS)
    data, constant = aesara.shared(array, name="data"), at.as_tensor_variable(array, name="fixed")
    pass_data = {
        jaxprgen.compile: "To pass them as arguments, list them among the inputs, "
        "jaxprgen.compile([data, ...], outputs), or use jaxprgen.function and its method "
        "pure(state, ...).",
        jaxprgen.function: "To pass them as arguments, call main.pure(state, ...).",
    }[make]
    for variable, name, remedy in [
        (data, "'data'", pass_data),
        (constant, "'fixed'", "Make it an input of the graph, and pass it as an argument."),
    ]:
        f = make([b], ((variable @ b) ** 2).sum())
        gradient = 2 * DATA.T @ DATA @ np.ones(6)
        assert np.allclose(jax.grad(f)(np.ones(6)), gradient)
        assert np.allclose(jax.vmap(jax.grad(f))(np.ones((2, 6))), gradient)
        for traced in (jax.jit(f), jax.grad(jax.jit(f)), jax.jit(jax.grad(f))):
            with pytest.raises(ShardingError) as caught:
                traced(np.ones(6))
            assert str(caught.value) == COPIED.format(name, remedy)
    whole = aesara.shared(jax.device_put(DATA, WHOLE), name="data")
    f = make([b], (whole @ b).sum())
    with pytest.warns(SharedValueWarning):
        assert np.allclose(jax.jit(f)(np.ones(6)), DATA.sum())


def test_a_loop_takes_the_data_as_an_operand():
    data = aesara.shared(jax.device_put(DATA, ROWS), name="data")
    f = jaxprgen.compile([b], (data @ b).sum())
    with pytest.warns(SharedValueWarning):
        _, sums = jax.lax.scan(lambda c, b: (c, f(b)), 0, np.ones((2, 6)))
    assert np.allclose(sums, DATA.sum())


def test_data_cannot_be_on_a_mesh_without_devices():
    f = jaxprgen.compile(
        [x], x * 2, shardings={x: NamedSharding(AbstractMesh((4,), ("i",)), P("i"))}
    )
    with pytest.raises(ShardingError, match="Input 'x' cannot be put on the mesh of 'i': 4, which"):
        f(DATA)


def test_a_function_is_unpickled_where_its_devices_are():
    where = PortableSharding.of(BOTH)
    assert where.restored() == BOTH
    with pytest.raises(ShardingError, match=r"on 8 devices; this process has 8, and none with nu"):
        where._replace(devices=(*range(7), 99)).restored()


def test_values_of_another_type_are_converted_or_refused():
    shared = aesara.shared(np.zeros((8, 6)), name="data")
    shared.set_value(jax.device_put(DATA.astype("float32"), ROWS))
    assert shared.get_value().dtype == "float64"
    with pytest.raises(ArgumentTypeError, match="variable 'data' has dtype float64, which cannot"):
        shared.set_value(jax.device_put(DATA.astype(complex), ROWS))
    with pytest.raises(ArgumentShapeError, match=r"variable 'data' .* array of shape \(8,\)"):
        shared.set_value(jax.device_put(DATA[:, 0], ROWS))
