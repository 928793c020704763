"""Ops without a rule whose inputs are constants or shapes are computed once, as Aesara does."""

import aesara
import aesara.sparse as sparse
import aesara.tensor as at
import jax
import numpy as np
import pytest
import scipy.sparse
from aesara.compile.builders import OpFromGraph
from aesara.graph.basic import Apply
from aesara.graph.op import Op
from aesara.ifelse import ifelse
from laws import refusal

import jaxprgen
from jaxprgen import errors
from jaxprgen.graphs import known

calls = []
x = at.TensorType("float64", (3,))("x")
ONE = at.constant(np.arange(3.0))


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


class Table(Op):
    """The squares, of three elements at most."""

    __props__ = ()
    result = at.dvector

    def make_node(self, v):
        return Apply(self, [at.as_tensor_variable(v)], [self.result()])

    def perform(self, node, inputs, outputs):
        calls.append(inputs[0])
        if inputs[0].size > 3:
            raise ValueError("There are more than three.")
        outputs[0][0] = inputs[0] ** 2


class Two(Table):
    def make_node(self, v):
        return Apply(self, [at.as_tensor_variable(v)], [at.dvector(), at.lscalar()])

    def perform(self, node, inputs, outputs):
        super().perform(node, inputs, outputs)
        outputs[1][0] = np.asarray(inputs[0].size)


class Matrix(Table):
    result = sparse.SparseTensorType("csr", "float64")

    def perform(self, node, inputs, outputs):
        outputs[0][0] = scipy.sparse.csr_matrix(np.diag(inputs[0] ** 2))


class Large(Table):
    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.zeros(2**20 // 8 + 1)


class Unfolded(Table):
    def do_constant_folding(self, fgraph, node):
        return False


def inside(v, result):
    return OpFromGraph([v], [result])(x)


table, size = Table(), x.shape[0].astype("float64")
CASES = {
    "constant": lambda: x * table(ONE),
    "chain": lambda: x * table(at.sqrt(table(ONE))),
    "through Ops with rules": lambda: x * table(at.sort(at.exp(at.log(ONE[::-1])))),
    "shape": lambda: x * table(at.arange(x.shape[0]).astype("float64")),
    "shape of a result": lambda: x * table(at.arange((x + 1).size).astype("float64")),
    "zeros like": lambda: x * (table(at.zeros_like(x)) + ONE**2),
    "several results": lambda: x * Two()(ONE)[0] * Two()(ONE)[1] / 3,
    "a size": lambda: x * ONE**2 + at.zeros(Two()(ONE)[1]),
    "inside of a graph": lambda: inside(y := at.dvector(), y * table(ONE)),
    "a graph of constants": lambda: x * OpFromGraph([y := at.dvector()], [table(y)])(ONE),
    "two levels": lambda: inside(
        y := at.dvector(), y * OpFromGraph([z := at.dvector()], [table(z)])(ONE)
    ),
    "scan": lambda: aesara.scan(lambda a: a * table(ONE), [x])[0].diagonal(),
    "branch": lambda: ifelse(x.sum() > 0, x * table(ONE), x),
    "sparse": lambda: sparse.structured_dot(Matrix()(ONE), x[:, None])[:, 0],
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fallback", ["error", "callback"])
def test_values_and_gradients(case, fallback):
    f = jaxprgen.compile([x], CASES[case](), fallback=fallback)
    wanted = np.arange(3.0) ** 2
    np.testing.assert_allclose(f(np.full(3, 2.0)), 2 * wanted)
    count = len(calls)
    np.testing.assert_allclose(f(np.full(3, 3.0)), 3 * wanted)
    assert len(calls) == count
    slopes = jax.grad(lambda v: f(v).sum())(np.ones(3))
    np.testing.assert_allclose(slopes, wanted)
    assert jaxprgen.check([x], CASES[case]()).compiles


def test_constants_are_computed_once_and_shapes_when_known():
    f = jaxprgen.compile([x], CASES["chain"]())
    for argument in (np.ones(3), jax.ShapeDtypeStruct((3,), np.float32)):
        f.jaxpr(argument)
        assert len(calls) == 2
    y = at.dvector()
    f = jaxprgen.compile([y], table(at.arange(y.shape[0]).astype("float64")))
    for n in (3, 2):
        np.testing.assert_array_equal(f(np.ones(n)), np.arange(n) ** 2)


def test_what_raises_is_left_for_the_call():
    f = jaxprgen.compile([x], x.sum() + table(np.arange(4.0)))
    lines = refusal(errors.LoweringError, f, np.ones(3))
    assert lines[0] == "Lowering failed: ValueError: There are more than three."
    assert lines[1].startswith("  in Table(")
    assert lines[-1].startswith("  built at LINE: f = jaxprgen.compile")


def test_large_results_are_refused(monkeypatch):
    monkeypatch.setattr(known, "LARGEST", 1)
    f = jaxprgen.compile([x], Large()(ONE))
    with pytest.raises(errors.UnsupportedOpError, match=r"take 1 MB, and programs keep 1 MB at mo"):
        f(np.ones(3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: table(x),
        lambda: table(at.random.normal(size=3)),
        lambda: table(aesara.shared(np.ones(3))),
        lambda: Unfolded()(ONE),
        lambda: inside(y := at.dvector(), table(y)),
        lambda: aesara.scan(lambda a: table(ONE) * table(at.stack([a])), [x])[0],
    ],
)
def test_what_values_decide_is_refused_still(make):
    with pytest.raises(errors.UnsupportedOpError, match="1 node"):
        jaxprgen.compile([x], make())
    assert not jaxprgen.check([x], make()).compiles
