"""Constructors of factorizations make the equations that the installed JAX makes of them."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import jax
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from jax.lax import linalg
from laws import DTYPES
from test_primitives import (
    Call,
    Row,
    array,
    assert_same_equation,
    emitted,
    traced,
)

from jaxprgen.ir import primitives
from jaxprgen.ir.primitives import decompositions

sizes = st.integers(0, 3)
# Mostly what LAPACK takes, for JAX refuses all else.
dtypes = st.sampled_from(["float32", "float64", "complex64", "complex128"]) | st.sampled_from(
    DTYPES
)
flags = st.booleans()


@st.composite
def matrix(draw: Any, **options: st.SearchStrategy[Any]) -> Call:
    """One matrix, mostly a square one, now and then with axes before it or a vector."""
    m = draw(sizes)
    shape = draw(st.sampled_from([(m, m), (m, m), (m, 2), (2, m, m), (m,)]))
    return Call((array(draw(dtypes), *shape),), draw(st.fixed_dictionaries(options)))


@st.composite
def system(draw: Any) -> Call:
    m, n, dtype = draw(sizes), draw(sizes), draw(dtypes)
    left = draw(flags)
    right = draw(st.sampled_from([(m, n) if left else (n, m)] * 3 + [(m, m + 1)]))
    other = draw(st.sampled_from([dtype, dtype, dtype, "float32"]))
    names = ("lower", "transpose", "conjugate", "unit_diagonal")
    options = {"left_side": left, **{name: draw(flags) for name in names}}
    return Call((array(dtype, m, m), array(other, *right)), options)


def solve(a: Any, y: Any, transpose: bool, conjugate: bool, **options: Any) -> Any:
    return linalg.triangular_solve(a, y, transpose_a=transpose, conjugate_a=conjugate, **options)


def is_usual(call: Call) -> bool:
    """Whether the operand is a matrix, or several, of what LAPACK takes."""
    return len(call.types[0].shape) > 1 and call.types[0].dtype.char in "fdFD"


ROWS = {
    "cholesky": Row(functools.partial(linalg.cholesky, symmetrize_input=False), matrix()),
    "lu": Row(linalg.lu, matrix()),
    "triangular_solve": Row(solve, system()),
    "eig": Row(functools.partial(linalg.eig, compute_left_eigenvectors=False), matrix()),
    "eigh": Row(functools.partial(linalg.eigh, symmetrize_input=False), matrix(lower=flags)),
    "qr": Row(linalg.qr, matrix(full_matrices=flags)),
    # `jax.numpy` promotes other dtypes, and has a check of its own.
    "geqrf": Row(functools.partial(jax.numpy.linalg.qr, mode="raw"), matrix().filter(is_usual)),
    "svd": Row(linalg.svd, matrix(full_matrices=flags, compute_uv=flags)),
}


def check(name: str, call: Call) -> bool:
    """Whether both take the call; that one does and the other does not is an error."""
    ours = emitted(getattr(primitives, name), call)
    theirs = traced(ROWS[name].theirs, call)
    assert (ours is None) == (theirs is None), (ours, theirs)
    if ours is None:
        return False
    inner = [getattr(e.params.get("jaxpr"), "eqns", [e]) for e in theirs.jaxpr.eqns]
    found = [e for eqns in inner for e in eqns if e.primitive is ours.primitive]
    assert_same_equation(ours, found[0])
    return True


def test_every_constructor_is_in_the_table():
    constructors = [
        name
        for name, f in vars(decompositions).items()
        if inspect.isfunction(f) and f.__module__ == decompositions.__name__
    ]
    assert sorted(ROWS) == sorted(constructors)


@pytest.mark.parametrize("name", ROWS)
def test_equations_and_types_are_those_of_jax(name):
    @given(ROWS[name].calls)
    def law(call):
        check(name, call)

    law()
    find(ROWS[name].calls, lambda call: check(name, call), settings=settings(database=None))
