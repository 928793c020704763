"""Passes of compiled functions."""

import aesara
import aesara.tensor as at
import numpy as np
import pytest
from laws import all_equations, assert_agrees

import jaxprgen
from jaxprgen.passes import DEFAULT, MapToVmap

x, k = at.dvector("x"), at.dscalar("k")
numbers = np.linspace(-1, 1, 5)
taps = {"input": x, "taps": [0, -1]}
terms = aesara.scan(lambda v, before, k: at.exp(k * before) - v, taps, non_sequences=k)[0]
total = terms.sum()
outputs = [total, *aesara.grad(total, [x, k])]


def loops(closed):
    return [e for e in all_equations(closed.jaxpr) if e.primitive.name == "scan"]


def test_maps_and_their_gradients_are_batched():
    """The loop of `aesara.grad`, which sums over steps, is batched; without passes, both stay."""
    f = assert_agrees([x, k], outputs, [numbers, 0.5])
    assert not loops(f.jaxpr(numbers, 0.5))
    g = jaxprgen.compile([x, k], outputs, passes=())
    assert len(loops(g.jaxpr(numbers, 0.5))) == 2
    for ours, others in zip(f(numbers, 0.5), g(numbers, 0.5), strict=True):
        np.testing.assert_allclose(ours, others, rtol=1e-12)


def test_rewritten_equations_belong_to_their_nodes():
    f = jaxprgen.compile([x, k], outputs)
    seen = f.observe(numbers, 0.5)
    assert sum(len(node.equations) for node in seen.nodes) == len(seen.closed_jaxpr.jaxpr.eqns)
    forwards, _ = (n for n in seen.nodes if n.op.startswith("for{"))
    assert "exp" in [e.primitive.name for e in forwards.equations]
    assert "exp" in jaxprgen.inspect.pretty(f, numbers, 0.5)
    assert jaxprgen.inspect.html(f, numbers, 0.5)


@pytest.mark.parametrize("passes", [(), DEFAULT, (MapToVmap(memory=0, reassociate=True),)])
def test_stateful_functions_accept_passes(passes):
    linker = jaxprgen.JaxprLinker(passes=passes)
    mode = jaxprgen.JaxprMode(linker, None)
    functions = [
        aesara.function([x, k], outputs, mode=mode),
        jaxprgen.function([x, k], outputs, passes=passes),
    ]
    for f in functions:
        assert len(loops(f.compiled.jaxpr(numbers, 0.5))) == (0 if passes is DEFAULT else 2)
        assert len(f(numbers, 0.5)) == 3


def test_debugging_finds_equations_that_left_their_loop():
    f = jaxprgen.compile([x], aesara.scan(at.log, x)[0].sum())
    assert not loops(f.jaxpr(numbers))
    with pytest.raises(jaxprgen.errors.NonFiniteValueError, match=r"(?s)for\{cpu.*log"):
        jaxprgen.debug(f)(numbers)
