"""Connectionist temporal classification, against a count of all paths."""

import functools
import itertools
import math
import warnings
from pathlib import Path

import aesara
import aesara.tensor as at
import jax
import jax.export
import numpy as np
import pytest
from catalogue.sizes import exported
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, PartitionSpec
from laws import failures, refusal

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import RuntimeCheckWarning, ShapeMismatchError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # `aesara.tensor.nnet` is deprecated.
    from aesara.tensor.nnet import ctc as module

pytestmark = pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")


@pytest.fixture(autouse=True)
def _library(monkeypatch):
    """Aesara makes the Op only where its library is, which nothing here calls."""
    monkeypatch.setattr(module, "ctc_available", lambda: True)


class Classification(module.ConnectionistTemporalClassification):
    """Aesara's own class is abstract: it has no ``perform``."""

    func_file = str(Path(module.__file__).parent / "c_code" / "ctc_wrapper.c")

    def perform(self, node, inputs, outputs):
        raise NotImplementedError


def graph():
    x, labels, lengths = at.ftensor3("x"), at.imatrix("labels"), at.ivector("lengths")
    return [x, labels, lengths], Classification().make_node(x, labels, lengths).outputs


def cost_of(scores, labels, length):
    """Minus the logarithm of the sum over all paths, by trying each."""
    wanted = [k for k in labels if k >= 0]
    if len(wanted) + sum(p == q for p, q in itertools.pairwise(wanted)) > length or not length:
        return 0.0
    p = np.exp(scores[:length]) / np.exp(scores[:length]).sum(1, keepdims=True)
    total = 0.0
    for path in itertools.product(range(p.shape[1]), repeat=int(length)):
        if [k for k, _ in itertools.groupby(path) if k] == wanted:
            total += np.prod(p[range(length), path])
    return -np.log(total)


@functools.cache
def program():
    """Costs, slopes, and the slopes that JAX finds of the costs."""
    f = jaxprgen.compile(*graph())

    def both(x, labels, lengths):
        check_jaxpr(f.jaxpr(x, labels, lengths).jaxpr)
        cost, pull, slope = jax.vjp(lambda x: f(x, labels, lengths), x, has_aux=True)
        return cost, slope, *pull(np.ones(x.shape[1], "float32"))

    return jax.jit(both)


@pytest.mark.parametrize(
    ("times", "batch", "classes", "longest"), [(5, 4, 3, 3), (1, 2, 2, 1), (2, 2, 1, 0)]
)
def test_costs_are_those_of_all_paths(times, batch, classes, longest):
    @given(st.data())
    def law(data):
        counts = st.lists(st.integers(0, times), min_size=batch, max_size=batch)
        size = batch * longest
        label = st.sampled_from([-1, *range(1, classes)])
        labels = data.draw(st.lists(label, min_size=size, max_size=size))
        labels = np.array(labels, "int32").reshape(batch, longest)
        lengths = np.array(data.draw(counts), "int32")
        rng = np.random.default_rng(data.draw(st.integers(0, 999)))
        x = (rng.normal(size=(times, batch, classes)) * 3).astype("float32")
        cost, slope, theirs = program()(x, labels, lengths)
        assert (cost.dtype, slope.dtype) == ("float32", "float32")
        wanted = [cost_of(x[:, i].astype("float64"), labels[i], lengths[i]) for i in range(batch)]
        np.testing.assert_allclose(cost, wanted, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(slope, theirs, rtol=1e-4, atol=2e-6)

    law()


TORCH = np.array(  # Scores, lengths, labels and costs of warp-ctc's Torch tutorial.
    [
        [[0, 0, 0, 0, 0], [1, 2, 3, 4, 5], [-5, -4, -3, -2, -1]],
        [[0, 0, 0, 0, 0], [6, 7, 8, 9, 10], [-10, -9, -8, -7, -6]],
        [[0, 0, 0, 0, 0], [11, 12, 13, 14, 15], [-15, -14, -13, -12, -11]],
    ],
    "float32",
)


def test_costs_and_slopes_are_those_of_warp_ctc():
    """https://github.com/baidu-research/warp-ctc/blob/master/torch_binding/TUTORIAL.md"""
    inputs, outputs = graph()
    labels = np.array([[1, -1], [3, 3], [2, 3]], "int32")
    cost, slope = jaxprgen.compile(inputs, outputs)(TORCH, labels, np.array([1, 3, 3], "int32"))
    np.testing.assert_allclose(cost, [1.609437943, 7.355742931, 4.938849926], rtol=1e-6)
    # Of the tests of `aesara.tensor.nnet.ctc`.
    np.testing.assert_allclose(slope[0, 0], [0.2, -0.8, 0.2, 0.2, 0.2], rtol=1e-6)
    np.testing.assert_array_equal(slope[1:, 0], 0)
    last = [0.01165623125, 0.03168492019, 0.08612854034, -0.7658783197, 0.636408627]
    np.testing.assert_allclose(slope[2, 1], last, rtol=1e-5)
    first = [-0.02115798369, 0.03168492019, -0.8810571432, 0.2341216654, 0.636408627]
    np.testing.assert_allclose(slope[0, 2], first, rtol=1e-5)


def test_the_gradient_of_aesara_and_many_batches():
    inputs, outputs = graph()
    loss = at.sum(outputs[0])
    f, g = (jaxprgen.compile(inputs, z) for z in (outputs[0], aesara.grad(loss, inputs[0])))
    labels, lengths = np.array([[1, 2], [2, 2]], "int32"), np.array([4, 3], "int32")
    x = np.random.default_rng(0).normal(size=(4, 2, 3)).astype("float32")
    cost, slope, _ = program()(2 * x, labels, lengths)
    np.testing.assert_allclose(jax.jit(g)(2 * x, labels, lengths), slope, 1e-4, 1e-5)
    mapped = jax.jit(jax.vmap(f, (0, None, None)))(np.stack([x, 2 * x]), labels, lengths)
    np.testing.assert_allclose(mapped[1], cost, rtol=1e-5)


def test_long_sequences_and_classes_that_are_excluded():
    """Probabilities that no float holds; and none at all, whose cost is infinite."""
    inputs, outputs = graph()
    f = jaxprgen.compile(inputs, outputs)
    x = np.zeros((500, 1, 3), "float32")
    length = np.array([500], "int32")
    cost, _ = f(x, np.array([[1, 2]], "int32"), length)
    # Of n times: n + L choose 2L paths for L labels, none of which is that before.
    np.testing.assert_allclose(cost, 500 * np.log(3) - np.log(math.comb(502, 4)), rtol=1e-5)
    x[:, :, 2] = -np.inf
    cost, slope = f(x, np.array([[1, 2]], "int32"), length)
    assert cost == np.inf
    np.testing.assert_allclose(slope[0, 0], [0.5, 0.5, 0])


def test_no_slopes_if_none_are_asked_for():
    inputs, _ = graph()
    op = Classification(compute_grad=False)
    args = np.zeros((2, 1, 2), "float32"), np.array([[1]], "int32"), np.array([2], "int32")
    f = jaxprgen.compile(inputs, op(*inputs))
    np.testing.assert_allclose(f(*args), [np.log(4 / 3)], rtol=1e-6)
    known = op(*map(at.constant, args))
    np.testing.assert_allclose(jaxprgen.compile([], known)(), [np.log(4 / 3)], rtol=1e-6)
    names = [eqn.primitive.name for eqn in f.jaxpr(*args).jaxpr.eqns]
    assert names.count("scan") == 1


def test_each_device_has_its_own_scores_of_labels_that_all_have():
    f = jaxprgen.compile(*graph())
    labels, lengths = np.array([[1, 2], [2, 2]], "int32"), np.array([4, 3], "int32")
    x = np.random.default_rng(0).normal(size=(4, 4, 3)).astype("float32")
    mesh = Mesh(jax.devices()[:2], ("i",))
    split = PartitionSpec(None, "i")
    mapped = jax.shard_map(
        lambda x: f(x, labels, lengths),
        mesh=mesh,
        in_specs=split,
        out_specs=[PartitionSpec("i"), split],
    )
    cost, slope = jax.jit(mapped)(x)
    for i in range(2):
        own = np.s_[2 * i : 2 * i + 2]
        wanted = f(x[:, own], labels, lengths)
        np.testing.assert_allclose(cost[own], wanted[0], rtol=1e-6)
        np.testing.assert_allclose(slope[:, own], wanted[1], atol=1e-6)


def test_labels_and_lengths_are_checked():
    inputs, outputs = graph()
    x, labels, lengths = np.zeros((2, 1, 2), "float32"), np.int32([[1]]), np.int32([2])
    with pytest.warns(RuntimeCheckWarning, match="labels are below 2, and lengths at most 2"):
        jaxprgen.compile(inputs, outputs)(x, labels, lengths)
    calls = (labels, lengths), (labels + 1, lengths), (labels, lengths + 1)
    right, *wrong = failures(inputs, outputs, *([x, *call] for call in calls))
    assert right is None
    assert all("A label is not below 2, or a length is above 2." in text for text in wrong)
    f = jaxprgen.compile(inputs, outputs)
    assert refusal(ShapeMismatchError, f, x, labels, np.int32([2, 2]))[0] == (
        "Labels of shape (1, 1) and lengths of shape (2,) do not fit 1 sequences."
    )


@pytest.mark.parametrize("shapes", [["t,b,c", "b,n", "b"], ["5,b,3", "b,2", "b"]], ids=str)
def test_one_program_serves_every_size(shapes):
    inputs, outputs = graph()
    open_ = "t" in shapes[0]
    served, f = exported(inputs, outputs, shapes, ["t >= 2"] * open_), jaxprgen.compile(*graph())
    rng = np.random.default_rng(0)
    for t, b, c, n in [(5, 2, 3, 2), (5, 3, 3, 2), *[(3, 2, 4, 1)] * open_]:
        x = rng.normal(size=(t, b, c)).astype("float32")
        labels = rng.integers(1, c, (b, n)).astype("int32")
        lengths = rng.integers(t // 2, t + 1, b).astype("int32")
        for ours, theirs in zip(
            served.call(x, labels, lengths), f(x, labels, lengths), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
