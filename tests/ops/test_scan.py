"""`Scan`: values, dtypes and shapes are those of Aesara's Python linker; what is used is stacked."""


import aesara
import aesara.tensor as at
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import assert_agrees

from jaxprgen._jax import sub_jaxprs

x, v0 = at.dvector("x"), at.dvector("v0")
X = at.dmatrix("X")
a, x0 = at.dscalar("a"), at.dscalar("x0")
n = at.lscalar("n")
numbers = np.array([0.5, -1.0, 2.0, 0.25, 3.0, -0.75])


def all_equations(jaxpr):
    """The equations of a program and of all programs inside."""
    inner = (e for eqn in jaxpr.eqns for _, sub in sub_jaxprs(eqn) for e in all_equations(sub))
    return [*jaxpr.eqns, *inner]


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


@settings(max_examples=30)
@given(loops())
def test_loops(case):
    assert_agrees(*case)
