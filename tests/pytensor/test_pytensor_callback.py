"""Ops of PyTensor that are called back: shapes by ``infer_shape``, and messages."""

import inspect
import warnings

import jax
import numpy as np
import pytest

import jaxprgen
from jaxprgen.graphs import callback, plan

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")

from op_classes import op_classes  # noqa: E402
from pytensor.compile.ops import FromFunctionOp  # noqa: E402
from pytensor.graph.basic import Apply  # noqa: E402
from pytensor.graph.op import Op  # noqa: E402

X = np.array([0.5, -1.0, 2.0, 3.5])
M = np.array([[3.0, 1.0, 0.5], [1.0, 4.0, -1.0], [0.5, -1.0, 5.0]])
x, m = pt.dvector("x"), pt.dmatrix("m")

OWN = {
    "AllocEmpty": lambda: pt.zeros_like(pt.empty(x.shape)),
    "Alloc": lambda: pt.alloc(x[0], x.shape[0], 2),
    "ARange": lambda: pt.arange(x.shape[0]),
    "Blockwise": lambda: pt.linalg.cholesky(pt.stack([m, m])),
    "CumOp": lambda: pt.cumsum(x),
    "DimShuffle": lambda: m.T,
    "Dot": lambda: pt.dot(m[0], x[:3]),
    "Elemwise": lambda: pt.exp(x) + m[0, 0],
    "Eye": lambda: pt.eye(x.shape[0], 3),
    "ExtractDiag": lambda: pt.diagonal(m, offset=1),
    "IncSubtensor": lambda: x[1:].inc(2.0),
    "AdvancedSubtensor": lambda: m[[0, 1], [1, 2]],
    "Join": lambda: pt.concatenate([x, x]),
    "MakeVector": lambda: pt.stack([x[0], x[1]]),
    "Max": lambda: m.max(0),
    "Argmax": lambda: m.argmax(1),
    "Reshape": lambda: m.reshape((-1,)),
    "SearchsortedOp": lambda: pt.searchsorted(pt.sort(x), x),
    "SortOp": lambda: pt.sort(x),
    "ArgSortOp": lambda: pt.argsort(x),
    "Split": lambda: pt.split(x, [1, 3], n_splits=2)[1],
    "Subtensor": lambda: m[1:, ::-1],
    "Sum": lambda: m.sum(1),
    "UnravelIndex": lambda: pt.unravel_index(pt.argsort(x), (2, 2))[0],
    "Unique": lambda: pt.unique(x)[:0],
}
"""Graphs with an Op of this class, of ``x`` and ``m``."""


@pytest.mark.parametrize("name", OWN)
def test_an_op_of_the_library_runs_by_callback(name, monkeypatch):
    output = OWN[name]()
    ops = {type(node.op) for node in pytensor.graph.traversal.io_toposort([], [output])}
    assert name in {kind.__name__ for kind in ops}
    real = plan.supported
    monkeypatch.setattr(
        plan, "supported", lambda op: None if type(op).__name__ == name else real(op)
    )
    f = jaxprgen.compile([x, m], output, fallback="callback")
    mode = pytensor.compile.mode.Mode("py", None)
    expected = pytensor.function([x, m], output, mode=mode, on_unused_input="ignore")(X, M)
    np.testing.assert_allclose(f(X, M), expected)


def test_every_infer_shape_takes_what_it_is_given():
    given = (*callback._before_node("pytensor"), "node", [])
    kinds = [
        k for k in op_classes(pytensor, Op, ("pytensor.sandbox",)) if hasattr(k, "infer_shape")
    ]
    assert len(kinds) > 80
    for kind in kinds:
        inspect.signature(kind.infer_shape).bind(None, *given)


class Box(Op):
    """Minus the squares."""

    def make_node(self, v):
        return Apply(self, [pt.as_tensor(v)], [pt.dvector()])

    def perform(self, node, inputs, outputs):
        assert not np.all(inputs[0] == 1), "It was tried."
        outputs[0][0] = -(inputs[0] ** 2)


class OfNode(Box):
    def infer_shape(self, node, shapes):
        return [shapes[0]]


with warnings.catch_warnings(action="ignore"):  # Versions after 3.0 pass None for the graph.

    class OfGraph(Box):
        def infer_shape(self, fgraph, node, shapes):
            return [shapes[0]]


NEW = not callback._before_node("pytensor")


@pytest.mark.parametrize(
    "op",
    [
        *([OfNode()] if NEW else []),
        OfGraph(),
        FromFunctionOp(lambda a: -(a**2), [pt.dvector], [pt.dvector], lambda *args: [args[-1][0]]),
    ],
    ids=lambda op: type(op).__name__,
)
def test_an_op_of_the_user_tells_its_shape(op):
    f = jaxprgen.compile([x], op(x), fallback="callback")
    np.testing.assert_array_equal(f(X), -(X**2))


@pytest.mark.parametrize("error", [NotImplementedError, pt.exceptions.ShapeError])
def test_an_op_that_cannot_tell_its_shape_is_tried(error):
    class Silent(Op):
        make_node = Box.make_node

        def infer_shape(self, *_):
            raise error

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.sin(inputs[0])

    f = jaxprgen.compile([x], Silent()(x), fallback="callback")
    np.testing.assert_allclose(f(X), np.sin(X))


class Told(Box):
    def infer_shape(self, *args):
        return [args[-1][0]]


class WithGradient(Told):
    def L_op(self, inputs, outputs, slopes):
        return [-2.0 * slopes[0] * inputs[0]]


class WithPullback(Told):
    def pullback(self, inputs, outputs, slopes):
        return [-2.0 * slopes[0] * inputs[0]]


@pytest.mark.filterwarnings("ignore:WithGradient should implement `pullback`")
@pytest.mark.parametrize("op", [WithGradient(), WithPullback()], ids=lambda op: type(op).__name__)
def test_the_refusal_of_a_gradient_names_the_library_and_its_way(op):
    f = jaxprgen.compile([x], op(x).sum(), fallback="callback")
    with pytest.raises(jaxprgen.errors.UndefinedGradientError) as caught:
        jax.grad(f)(X)
    assert str(caught.value).splitlines()[1] == (
        f"Register a rule with @jaxprgen.lowers({type(op).__name__}), or take the gradient by "
        "pytensor.grad, which knows that of this Op; pytensor.gradient.disconnected_grad "
        "stops gradients."
    )
    slope = pytensor.grad(op(x).sum(), x)
    np.testing.assert_array_equal(jaxprgen.compile([x], slope, fallback="callback")(X), -2 * X)


def test_no_message_names_another_library():
    v = pt.dvector("v")
    with pytest.raises(jaxprgen.JaxprGenError) as caught:
        jaxprgen.function([v], v, updates={v: v + 1})
    assert str(caught.value).endswith("Make it one with pytensor.shared.")
    with pytest.raises(jaxprgen.JaxprGenError) as caught:
        jax.jit(jaxprgen.compile([x], pt.exp(x[x > 0]) + pt.arange(2)))(X)
    assert "aesara" not in str(caught.value).lower()
