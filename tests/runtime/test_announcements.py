"""One warning tells of many programs that differ by the values of one input."""

from __future__ import annotations

import warnings

import aesara
import aesara.tensor as at
import numpy as np
import pytest

import jaxprgen
from jaxprgen.errors import SpecializationWarning
from jaxprgen.runtime import announcements

x, n, m = at.dvector("x"), at.lscalar("n"), at.lscalar("m")


def first(i, size=100):
    """A vector of which as many elements are positive as a number says."""
    return (np.arange(size) < i).astype(float)


def with_shared():
    length = aesara.shared(0, name="length")
    f = jaxprgen.compile([x], x[:length].sum())

    def call(i):
        length.set_value(i)
        return f(first(i))

    return call


MANY = {
    "an input": (
        lambda: jaxprgen.compile([n], at.arange(n).sum()),
        "input 'n'",
        "round 'n' up to one of a few sizes, or use a mask of fixed size, such as "
        "at.arange(size) < n, in place of a slice.",
    ),
    "the second of two inputs": (
        lambda: (lambda f: lambda i: f(i % 2, i))(
            jaxprgen.compile([m, n], [at.zeros(m), at.zeros(n)])
        ),
        "input 'n'",
        "round 'n' up",
    ),
    "a mask": (
        lambda: (lambda f: lambda i: f(first(i)))(jaxprgen.compile([x], x[x > 0])),
        "input 'x'",
        "give the result whose size it decides a fixed size, by sizes= of jaxprgen.compile, or "
        "only use reductions of it, such as x[mask].sum().",
    ),
    "a shared variable": (with_shared, "shared variable 'length'", "round 'length' up"),
    "an argument of mode JAXPR": (
        lambda: aesara.function([n], at.arange(n), mode="JAXPR"),
        "input 'n'",
        "round 'n' up",
    ),
}


@pytest.mark.parametrize(("make", "which", "remedy"), MANY.values(), ids=MANY)
def test_one_warning_after_many_programs_for_values_of_one_input(monkeypatch, make, which, remedy):
    monkeypatch.setattr(announcements, "MANY", 4)
    f = make()
    for i in [1, 2, 3, 2, 1]:
        f(i)
    with pytest.warns(SpecializationWarning) as caught:
        f(4)
    (warning,) = caught
    what, how = str(warning.message).splitlines()
    assert what == (
        f"'main' has emitted 4 programs for different values of {which}, because a shape depends "
        "on it. XLA compiles each of them, which takes time and about 1.7 MB."
    )
    assert how.startswith(f"To need fewer programs, {remedy}")
    assert warning.filename == __file__
    for i in range(5, 10):
        f(i)  # It warns once, and warnings are errors here.


def test_no_warning_of_many_shapes_or_of_values_that_share_a_program(monkeypatch):
    monkeypatch.setattr(announcements, "MANY", 4)
    head = jaxprgen.compile([x, n], x[:n].sum())
    positive = jaxprgen.compile([x], x[x > 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in range(3, 10):
            head(np.ones(size), 2)
            positive(np.roll(first(2, 12), size))
    assert head.cache_info().currsize == 7
    assert positive.cache_info().currsize == 1


def test_many_are_64():
    f = jaxprgen.compile([n], at.zeros(n))
    with pytest.warns(SpecializationWarning, match="emitted 64 programs") as caught:
        for i in range(66):
            f.jaxpr(i)
    assert len(caught) == 1
