"""`Scan`: values, dtypes and shapes are those of Aesara's Python linker; what is used is there."""

import gc
import weakref

import aesara
import aesara.tensor as at
import numpy as np
import pytest
from aesara.compile.builders import OpFromGraph
from aesara.graph.basic import Apply, clone_replace
from aesara.graph.op import Op
from hypothesis import given, strategies as st
from laws import assert_agrees, inputs_among, without_x64
from looping import scan
from profiles import examples

import jaxprgen
from jaxprgen.aesara.loops import compiled_loop

x, v0 = at.dvector("x"), at.dvector("v0")
X, T = at.dmatrix("X"), at.dtensor3("T")
a, x0 = at.dscalar("a"), at.dscalar("x0")
numbers = np.array([0.5, -1.0, 2.0, 0.25, 3.0, -0.75])


def loop_of(f, *args):
    """The only loop of a compiled function's program."""
    (eqn,) = (e for e in f.jaxpr(*args).jaxpr.eqns if e.primitive.name in ("scan", "while"))
    return eqn


# --- Values ---------------------------------------------------------------------------------

past = st.lists(st.integers(-3, -1), min_size=1, max_size=2, unique=True)
around = st.lists(st.integers(-2, 1), min_size=1, max_size=2, unique=True)
USES = {
    "whole": lambda t: t,
    "last": lambda t: t[-1],
    "first": lambda t: t[0],
    "but one": lambda t: t[-2:],
    "middle": lambda t: t[1:-1],
    "backwards": lambda t: t[::-1],
    "last of backwards": lambda t: t[::-1][0],
    "part of backwards": lambda t: t[1:][::-1][:-1],
    "every second": lambda t: t[::2],
    "length": lambda t: t.shape,
    "size": lambda t: t.shape[0] * 2,
    "reduced": lambda t: t.sum(0),
}


@st.composite
def loops(draw):
    """Inputs, outputs and arguments of a loop with two sequences, states of any taps and more."""
    dtype = draw(st.sampled_from(["float64", "float32", "int64", "complex128"]))
    row = draw(st.sampled_from([(), (2,), (1,), (0,)]))
    steps = draw(st.integers(2, 4))
    taps = draw(st.lists(around, max_size=2))
    states = draw(st.lists(past, max_size=2))
    rank = len(row) + 1
    rng = np.random.default_rng(draw(st.integers(0, 99)))

    def array(rows):
        return (rng.integers(-3, 4, (rows, *row)) / 2).astype(dtype)

    sequences = [at.tensor(dtype, (None,) * rank) for _ in taps]
    starts = [at.tensor(dtype, (None,) * rank) for _ in states]
    c = at.tensor(dtype, (None,) * len(row))
    infos = [{"initial": s, "taps": t} for s, t in zip(starts, states, strict=True)]

    def step(*values):
        total = sum(values) + c
        return [*(total - v * 2 for v in values[: len(states)]), total * total]

    outputs, _ = aesara.scan(
        step,
        [{"input": s, "taps": t} for s, t in zip(sequences, taps, strict=True)],
        [*(i if i["taps"] != [-1] else i["initial"][0] for i in infos), None],
        n_steps=None if taps and draw(st.booleans()) else steps,
        go_backwards=draw(st.booleans()),
        return_list=True,
    )
    uses = st.lists(st.sampled_from(sorted(USES)), min_size=1, max_size=3)
    used = [USES[use](out) for out in outputs for use in draw(uses)]
    args = [array(steps + 3) for _ in taps], [array(-min(t)) for t in states]
    return [*sequences, *starts, c], used, [*args[0], *args[1], array(1)[0]]


@examples(0.6)
@given(loops())
def test_loops(case):
    assert_agrees(*case)


# --- Models ---------------------------------------------------------------------------------


SQUARE = np.array([[0.5, 1.0], [-1.0, 0.25]])


def three_deep(tensor, start):
    """A loop in a loop in a loop, with what goes on from one to the next."""

    def inner(x, c, s):
        return c * s + x

    def middle(row, c, s):
        return scan(inner, row, c, [s])[-1]

    def outer(matrix, c, s):
        return scan(middle, matrix, c, [s])[-1] + s

    return scan(outer, tensor, start, [at.tanh(start)])


TWO_BACK = [{"initial": v0, "taps": [-2, -1]}]
z, h = at.zscalar("z"), at.vector("h", dtype="float16")
MATRIX = np.resize(numbers, (3, 4))
MODELS = {
    "three deep": (three_deep(T, x0), {T: np.resize(numbers, (2, 3, 2))}),
    "Fibonacci": (scan(lambda p, q: p + q, None, TWO_BACK, n_steps=7), {v0: np.ones(2)}),
    "powers": (scan(lambda p, m: p @ m, None, [at.eye(2)], [X], n_steps=4)[-1], {X: SQUARE}),
    "a map": (scan(lambda r: r / r.sum(), X), {X: MATRIX}),
    "two at once": (scan(lambda p, r: p * r, [x, X]), {x: numbers[:3], X: MATRIX}),
    "in a graph": (OpFromGraph([x, x0], [scan(lambda p, c: c * p, x, x0)])(x, x0).sum(), {}),
    "a graph in it": (
        scan(lambda p, c: OpFromGraph([a, x0], [a * x0 - a])(p, c), x, x0),
        {},
    ),
    "of shapes": (
        scan(lambda i, k: at.arange(4) * i + k, at.arange(x.shape[0]), None, [a]),
        {},
    ),
    "rows that broadcast": (
        scan(lambda c: c[:1] * 2.0 + at.zeros((1, 1)), None, [X], n_steps=2),
        {X: MATRIX[:2, :3]},
    ),
    "nothing changes": (scan(lambda p: p, None, [a], n_steps=3), {}),
    "complex": (scan(lambda w, z: w * w + z, None, [at.zeros_like(z)], [z], n_steps=3), {}),
    "half precision": (
        scan(lambda p, c: at.cast(c + p, "float16"), h, at.cast(0, "float16")),
        {},
    ),
}
"""Loops, and what their inputs are if not these."""
VALUES = {x: numbers, a: 2.0, x0: 0.5, z: 0.3 + 0.2j, h: numbers.astype("float16")}


@pytest.mark.parametrize("name", MODELS)
def test_models(name):
    output, values = MODELS[name]
    values = VALUES | values
    inputs = inputs_among(values, output)
    assert_agrees(inputs, [output], [values[v] for v in inputs], rtol=1e-11)


def test_no_step():
    """Nothing is computed; of what no step reads not even the size of a row is known."""
    outputs = scan(lambda r, s: (s + r, r * 2.0), X, [T[0, 0], None])
    args = np.zeros((0, 3)), np.ones((1, 1, 3))
    found = assert_agrees([X, T], outputs, args)(*args)
    assert [np.shape(y) for y in found] == [(0, 3), (0, 0)]


# --- What is used ---------------------------------------------------------------------------

cumulated = scan(lambda p, c, k: (c * at.exp(k) + p, c * p), x, [x0, None], [a])


def test_what_is_used_is_all_there_is():
    """Stacks that nobody reads, and what only they need, are no part of the program."""
    args = numbers, 0.5, 2.0
    inputs = [x, x0, a]
    kinds = {
        "last": ([cumulated[0][-1]], 1, []),
        "last two": ([cumulated[0][-1], cumulated[1][-1]], 2, []),
        "stack": ([cumulated[0]], 2, [(6,)]),
        "a stack of two": ([cumulated[1]], 2, [(6,)]),
        "two stacks": (list(cumulated), 3, [(6,), (6,)]),
        "length": ([cumulated[1].shape[0]], None, []),
    }
    for outputs, count, stacks in kinds.values():
        assert_agrees(inputs, outputs, args)
        f = jaxprgen.compile(inputs, outputs, passes=())
        closed = f.jaxpr(*args)
        if count is None:
            assert not closed.jaxpr.eqns
            continue
        outvars = loop_of(f, *args).outvars
        assert len(outvars) == count
        assert [v.aval.shape for v in outvars if v.aval.shape] == stacks
        assert [e.primitive.name for e in closed.jaxpr.eqns] == ["exp", "scan"]


def test_the_last_value_takes_no_more_memory_for_more_steps(steps=100_000):
    last = scan(lambda c, k: (c * k, c + k), None, [X, None], [a], n_steps=steps)
    f = jaxprgen.compile([X, a], [last[0][-1], last[1][-1]])
    memory = f.lower(np.ones((10, 10)), 0.5).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 10_000
    whole = jaxprgen.compile([X, a], last[0]).lower(np.ones((10, 10)), 0.5).compile()
    assert whole.memory_analysis().output_size_in_bytes == 800 * steps


def test_what_does_not_change_is_computed_once():
    """What follows from non-sequences is outside of the loop, and so is a carry that stays."""
    inner = scan(
        lambda p, c, k, m: (c + p * at.exp(k) + (m @ m).sum(), k * at.ones(())), x, [x0, a], [X]
    )
    f = jaxprgen.compile([x, x0, a, X], [inner[0][-1], inner[1][-1]], passes=())
    args = numbers, 0.5, 2.0, np.eye(2)
    closed = f.jaxpr(*args)
    assert_agrees([x, x0, a, X], [inner[0][-1], inner[1][-1]], args)
    body = loop_of(f, *args).params["jaxpr"].jaxpr
    assert "exp" not in {e.primitive.name for e in body.eqns}
    assert "dot_general" not in {e.primitive.name for e in body.eqns}
    assert "dot_general" in {e.primitive.name for e in closed.jaxpr.eqns}


def test_data_inside_of_a_loop_stays_out_of_the_program():
    data = at.as_tensor(np.arange(5000.0))
    f = jaxprgen.compile([x0], scan(lambda c: c + data.sum(), None, [x0], n_steps=3)[-1])
    closed = f.jaxpr(0.0)
    assert [np.shape(c) for c in closed.consts] == [(5000,)]
    assert f(0.0) == 3 * np.arange(5000.0).sum()


def test_buffers_that_are_shorter_than_the_loop_keep_the_last_rows():
    """Aesara's own rewriting makes such. Rows that are never reached are zeros."""
    t = scan(lambda p, c, d: c * 0.5 + d + p, x, [{"initial": v0, "taps": [-1, -3]}])
    op, args = t.owner.inputs[0].owner.op, (numbers, np.ones(3))
    outputs = [
        op(at.constant(6), x, at.set_subtensor(at.empty((kept,))[:3], v0))
        for kept in (3, 4, 8, 9, 11)
    ]
    assert_agrees([x, v0], outputs, args)
    full = [op(at.constant(6), x, at.join(0, v0, at.ones(k))) for k in (0, 2, 8)]
    assert_agrees([x, v0], full, args)


# --- Transformations ------------------------------------------------------------------------


def test_loops_without_x64():
    f = jaxprgen.compile([x, x0, a], [cumulated[0], cumulated[1].shape[0]])
    with without_x64(), pytest.warns(jaxprgen.errors.PrecisionWarning):
        y, length = f(numbers.astype("float32"), np.float32(1), np.float32(0))
    assert (y.dtype, length) == (np.float32, 6)


@examples(0.3)
@given(taps=past, steps=st.sampled_from([0, 1, 4]))
def test_what_steps_had_of_a_state_is_not_joined(taps, steps):
    """As many rows as there are steps, from any of those to start with on, in either order."""
    depth = -min(taps)
    state = {"initial": v0, "taps": taps}
    whole = scan(lambda *xs: sum(xs[:-1]) * xs[-1], x, state, [a]).owner.inputs[0]
    parts = [whole[j : j + steps] for j in range(depth + 1)]
    args = numbers[:steps], numbers[:depth], 0.5
    f = assert_agrees([x, v0, a], [*parts, *(part[::-1] for part in parts)], args)
    program = f.jaxpr(*args).jaxpr
    assert "concatenate" not in {e.primitive.name for e in program.eqns}


def test_rows_that_are_all_alike_are_none():
    """No more than one is given, as a part of the program; zeros of both signs are not alike."""
    alike, signs = np.full(4, 2.0), np.array([0.0, -0.0, 0.0])
    step = lambda p, c: at.tanh(c) + 1 / p  # noqa: E731
    f = assert_agrees([x0], [scan(step, at.as_tensor(alike), x0)], [0.5])
    assert len(loop_of(f, 0.5).invars) == 1
    f = assert_agrees([x0], [scan(step, at.as_tensor(signs), x0)], [0.5])
    assert len(loop_of(f, 0.5).invars) == 2
    assert_agrees([x0], [scan(step, at.as_tensor(np.full(3, np.nan)), x0)], [0.5])


class Multiplied(Op):
    """Ops of all factors compare equal, and so do loops over them."""

    __props__ = ()

    def __init__(self, factor):
        self.factor = factor

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = self.factor * inputs[0]


def test_each_loop_runs_its_own_ops_though_loops_compare_equal():
    """Two loops that follow from known values, in one program and in two."""
    results = [scan(lambda c, f=f: Multiplied(f)(c), None, x0, n_steps=3) for f in (2, 3)]
    ops = [y.owner.inputs[0].owner.op for y in results]
    assert ops[0] == ops[1]
    known = [compiled_loop(op) for op in ops]
    assert known == [compiled_loop(op) for op in ops] and known[0] is not known[1]
    lengths = [at.cast(clone_replace(y, {x0: 1.0})[-1], "int64") for y in results]
    together = jaxprgen.compile([], [at.zeros((n,)) for n in lengths], fallback="callback")
    apart = [jaxprgen.compile([], at.zeros((n,)), fallback="callback")() for n in lengths]
    for found in (together(), apart):
        assert [x.shape for x in found] == [(8,), (27,)]


def test_the_copy_of_a_loop_dies_with_it():
    op = scan(lambda c: 2 * c, None, x0, n_steps=3).owner.inputs[0].owner.op
    copy = weakref.ref(compiled_loop(op))
    assert compiled_loop(op) is copy()
    del op
    gc.collect()
    assert copy() is None


# --- Looking at it ----------------------------------------------------------------------------
