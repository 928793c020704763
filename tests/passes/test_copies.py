"""Copies are proven by their equations, whatever the search believes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxprgen.ir.redundancy import Identities
from jaxprgen.passes.copies import Copies, Read, is_proven, side_by_side
from jaxprgen.passes.repeats import Colouring

X = np.linspace(0.0, 1.0, 16)


def nodes(function, name="", *, reassociate=False):
    """The nodes of a function of sixteen numbers, of one primitive or of all."""
    colouring = Colouring(jax.make_jaxpr(function)(*X).jaxpr, Identities(), reassociate)
    colouring.colour()
    return [node for node in colouring.nodes if name in ("", node.eqn.primitive.name)]


def are_side_by_side(some):
    return is_proven(side_by_side(some), as_loop=False)


def test_what_does_the_same_to_other_operands_is_proven():
    assert are_side_by_side(nodes(lambda a, b, *_: (jnp.sin(a), jnp.sin(b))))
    assert are_side_by_side(nodes(lambda a, b, *_: (a - b, b - a)))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, *_: (jnp.sin(a), jnp.cos(b)),
        lambda a, b, *_: (jax.lax.integer_pow(a, 3), jax.lax.integer_pow(b, 4)),
        lambda a, b, *_: (jnp.sin(a), jnp.sin(b.astype("float16"))),
        lambda a, *_: jnp.sin(jnp.sin(a)),
    ],
    ids=["primitive", "parameter", "type", "dependence"],
)
def test_what_differs_is_not_proven(function):
    assert not are_side_by_side([n for n in nodes(function) if "convert" not in str(n.eqn)])


def test_sums_may_differ_in_length_but_not_in_sign():
    def function(a, b, c, d, e, f, g, h, i, j, k, m, n, *_):
        return a + b + c, d - e - f, g + h + i + j, k - m + n

    three, less, four, mixed = nodes(function, reassociate=True)
    assert are_side_by_side([three, four])
    assert not are_side_by_side([three, less])
    assert not are_side_by_side([less, mixed])


# --- Loops -------------------------------------------------------------------------------------


def recurrence(h, *xs):
    for x in xs:
        h = jnp.sin(h * x)
    return h


BEFORE, OWN = Read(1, 0, 1), Read(0, 0, 0)


def steps(reads=((BEFORE, None), (OWN,)), change=list):
    found = nodes(recurrence)
    for node in found:
        node.operands = list(node.eqn.invars)
    rows = [found[i : i + 2] for i in range(0, len(found), 2)]
    return Copies(change(rows), [list(each) for each in reads])


def test_steps_that_read_the_step_before_are_proven():
    assert is_proven(steps(), as_loop=True)


@pytest.mark.parametrize(
    "reads",
    [
        ((Read(1, 0, 2), None), (OWN,)),
        ((Read(0, 0, 1), None), (OWN,)),
        ((None, None), (OWN,)),
        ((BEFORE, None), (None,)),
        ((BEFORE, BEFORE), (OWN,)),
    ],
    ids=["lag", "node", "carry", "own", "column"],
)
def test_other_reads_are_not_proven(reads):
    assert not is_proven(steps(reads), as_loop=True)


@pytest.mark.parametrize(
    "change",
    [lambda rows: rows[::-1], lambda rows: [*rows[:2], *rows[3:]], lambda rows: [rows[0]] * 2],
    ids=["order", "gap", "twice"],
)
def test_other_rows_are_not_proven(change):
    assert not is_proven(steps(change=change), as_loop=True)


def test_slices_at_other_places_are_rows_but_no_steps():
    def function(*xs):
        x = jnp.stack(xs)
        return jax.lax.slice(x, (0,), (2,)), jax.lax.slice(x, (2,), (4,))

    slices = side_by_side(nodes(function, "slice"))
    assert is_proven(slices, as_loop=False)
    assert not is_proven(slices, as_loop=True)
