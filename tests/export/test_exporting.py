"""An exported function is a `jax.export.Exported` that computes what the function computes."""

import re
from pathlib import Path

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from aesara.graph.basic import Apply
from aesara.graph.op import Op
from aesara.printing import Print
from aesara.raise_op import Assert
from aesara.tensor.slinalg import cholesky, solve_triangular

import jaxprgen
from jaxprgen.errors import ExportError, SymbolicSizeError

X, b, y = at.dmatrix("X"), at.dvector("b"), at.dvector("y")
weights = aesara.shared(np.array([1.0, 2.0, 3.0]), name="weights")
LARGE = np.arange(3000.0).reshape(3, 1000)  # More than a constant of StableHLO may have.
f = jaxprgen.compile([X, b], [at.exp(X) @ (b * weights), (b @ at.as_tensor(LARGE)).sum()])
x, v = np.linspace(0, 1, 6).reshape(2, 3), np.array([0.5, -1.0, 2.0])
PLATFORMS = ("cpu", "cuda", "tpu")


def assert_close(ours, expected):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), ours, expected)


@pytest.mark.parametrize(
    ("specs", "named"),
    [
        (("f64[n,3]", "f64[3]"), {}),
        ((), {"b": "float64[3]", "X": "f64[2*n,3]"}),
        ((x, v), {}),
        ((jax.ShapeDtypeStruct((2, 3), "float64"),), {"b": v}),
        ((jax.ShapeDtypeStruct(jax.export.symbolic_shape("m, 3"), "float64"), "f64[3]"), {}),
    ],
)
def test_types_are_given_as_arrays_structs_or_text(specs, named):
    exported = f.export(*specs, **named)
    assert isinstance(exported, jax.export.Exported)
    assert_close(exported.call(x, v), f(x, v))
    assert_close(jax.jit(exported.call)(x, v), f(x, v))


def test_one_scope_serves_all_texts():
    exported = jaxprgen.compile([X, b, y], X @ b - y).export("f64[n,k]", "f64[k]", "f64[n]")
    assert [str(aval.shape) for aval in exported.in_avals] == ["(n, k)", "(k,)", "(n,)"]
    with pytest.raises(ValueError, match="n"):
        exported.call(x, v, v)


def test_data_are_arguments():
    exported = f.export("f64[n,3]", "f64[3]")
    assert list(exported.data) == ["constant_0", "weights"]
    other = {**exported.data, "weights": np.zeros(3)}
    assert_close(exported.call(x, v, data=other)[0], np.zeros(2))
    text = exported.mlir_module()
    assert "tensor<3x1000xf64>" in text.partition("@main")[2].partition("->")[0]
    assert "dense_resource" not in text
    without = jaxprgen.compile([b], at.exp(b)).export("f64[n]")
    assert without.data == {}
    assert_close(without.call(v), np.exp(v))


def test_no_size_is_in_a_program_for_all_sizes():
    text = f.export("f64[n,3]", "f64[3]").mlir_module()
    assert re.search(r"tensor<[\dx]*\?x3xf64>", text)
    assert not re.search(r"tensor<2x3xf64>", text)


def test_a_platform_that_there_is_not():
    with pytest.raises(ExportError, match=r"no platform 'gpu'\. The platforms are cpu, cuda"):
        jaxprgen.compile([b], b.sum()).export("f64[n]", platforms="gpu")


def test_several_platforms():
    matrix = X.T @ X + at.eye(3)
    solved = solve_triangular(cholesky(matrix), b, lower=True)
    draws = at.random.RandomStream(1).normal(size=(3,)) + at.sort(solved)
    g = jaxprgen.compile([X, b], draws)
    with pytest.warns(jaxprgen.errors.RuntimeCheckWarning):
        exported = g.export("key[]", "f64[n,3]", "f64[3]", platforms=reversed(PLATFORMS))
    assert set(exported.platforms) == set(PLATFORMS)
    key = jax.random.key(0)
    assert_close(exported.call(key, x, v), g(key, x, v))


def test_derivatives():
    exported = f.export("f64[n,3]", "f64[3]", vjp_order=1)
    assert exported.vjp() is exported.vjp()

    def loss(g):
        return lambda b: g(x, b)[0].sum() ** 2

    assert_close(jax.grad(loss(exported.call))(v), jax.grad(loss(f))(v))


class Python(Op):
    """An Op that runs in Python."""

    __props__ = ()

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] + 1

    def infer_shape(self, fgraph, node, shapes):
        return shapes


@pytest.mark.parametrize(
    ("output", "options", "message"),
    [
        (Print("b is")(b) + 1, {}, "Print{message='b is'.* runs in Python"),
        (Python()(b), {"fallback": "callback"}, "Python runs in Python"),
        (Assert("b")(b, at.all(b > 0)), {"checks": True}, "was compiled with checks=True"),
    ],
    ids=["Print", "callback", "checks"],
)
def test_python_cannot_be_exported(output, options, message):
    g = jaxprgen.compile([b], output, **options)
    with pytest.raises(ExportError, match=message) as caught:
        g.export("f64[3]")
    assert Path(__file__).name in str(caught.value)  # The user's line.


def test_a_loaded_function_can_be_exported(tmp_path):
    jaxprgen.save(tmp_path / "f.jxg", f, "f64[n,3]", "f64[3]", vjp_order=1)
    exported = jaxprgen.load(tmp_path / "f.jxg").exported
    assert isinstance(exported, jax.export.Exported)
    assert_close(exported.call(x, v), f(x, v))
    assert_close(jax.grad(lambda v: exported.call(x, v)[1])(v), LARGE.sum(1))


def test_derivatives_that_jax_has_for_some_sizes_only():
    m = at.dmatrix("m")
    solved = jaxprgen.compile([m, b], at.slinalg.solve(m, b).sum())
    with pytest.raises(SymbolicSizeError, match="n >= 2"):
        solved.export("f64[n,n]", "f64[n]", vjp_order=1)
    assert solved.export("f64[n,n]", "f64[n]", vjp_order=1, constraints=["n >= 2"]).has_vjp()
