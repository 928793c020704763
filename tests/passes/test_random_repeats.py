"""Random programs that repeat something compute the same with and without the passes."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

import jaxprgen
from jaxprgen.ir.programs import verify
from jaxprgen.passes import ScanRepeats, VmapRepeats

UNARY = [jnp.sin, jnp.tanh, lambda v: 0.5 * v, lambda v: v * v - 1.0]
BINARY = [jnp.add, jnp.subtract, jnp.maximum, lambda v, w: 0.5 * v * w]


@st.composite
def kinds(draw):
    """One kind of repetition: a function of an element, a parameter and a carried value."""
    steps = draw(
        st.lists(
            st.tuples(st.sampled_from(UNARY), st.sampled_from(BINARY), st.integers(0, 3)),
            min_size=1,
            max_size=4,
        )
    )

    def kind(x, s, h):
        v = x
        for unary, binary, which in steps:
            v = unary(binary(v, (x, s, h, 0.3)[which]))
        return v

    return kind


@st.composite
def functions(draw):
    """A function of an array of rows and of a parameter, and how many rows it reads."""
    some = draw(st.lists(kinds(), min_size=1, max_size=3))
    n = draw(st.integers(6, 14))
    order = draw(st.sampled_from(["forwards", "backwards", "shuffled"]))
    places = list(range(n))[:: -1 if order == "backwards" else 1]
    if order == "shuffled":
        places = draw(st.permutations(places))
    # Of each repetition: the kind, by turns or drawn, and how many elements of its row it reads.
    turns = draw(st.sampled_from(["alternating", "random"]))
    which = [i if turns == "alternating" else draw(st.integers(0, 2)) for i in range(n)]
    sizes = [draw(st.integers(1, 3))] * n
    if draw(st.booleans()):
        sizes = [draw(st.integers(1, 3)) for _ in range(n)]
    carries = draw(st.integers(0, 2))
    vectors = draw(st.booleans())
    first, last = draw(st.booleans()), draw(st.booleans())

    def function(x, s):
        held, total = [s, s + 0.5], 0.0
        for t, i in enumerate(places):
            kind = some[which[t] % len(some)]
            rows = [x[i]] if vectors else [x[i, k] for k in range(sizes[t])]
            y = sum(kind(row, s, held[0] if carries else s) for row in rows)
            if (first and t == 0) or (last and t == n - 1):
                y = jnp.exp(-y * y)
            held = [jnp.tanh(y + 0.1 * held[1]), held[0]][: max(carries, 1)] + held[carries:]
            total = total + jnp.sum(y * 0.1)
        return total + jnp.sum(held[0] if carries else total)

    return function, n


@examples(1, quick=0.3)
@given(functions())
def test_random_repeats(drawn):
    function, n = drawn
    x, s = np.linspace(-1.0, 1.0, 3 * n).reshape(n, 3), 0.4
    program = jax.make_jaxpr(jax.value_and_grad(function, (0, 1)))(x, s)
    with jax.disable_jit():
        wanted = jaxprgen.jaxpr_as_fun(program)(x, s)
    for passes in (
        [VmapRepeats(least=3, reassociate=True)],
        [ScanRepeats(least=4, reassociate=True)],
        [VmapRepeats(least=3), ScanRepeats(least=4)],
    ):
        changed = program
        for rewrite in passes:
            changed = rewrite(changed)
        if changed is program:
            continue
        verify(changed)
        with jax.disable_jit():
            ours = jaxprgen.jaxpr_as_fun(changed)(x, s)
        for a, b in zip(ours, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
