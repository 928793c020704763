"""What a saved program assumes of sizes is checked when it is called."""

import aesara.tensor as at
import jax
import numpy as np
import pytest

import jaxprgen
from jaxprgen.errors import ArgumentShapeError

x, y = at.dvectors("x", "y")
ones = np.ones

CASES = {
    "index": ([x], x[2], ["f64[n]"], [(ones(3),), (ones(5),)], (ones(2),)),
    "reshape": ([x], x.reshape((-1, 2)), ["f64[n]"], [(ones(2),), (ones(6),)], (ones(3),)),
    "sum": ([x, y], x + y, ["f64[n]", "f64[m]"], [(ones(3), ones(3))], (ones(3), ones(4))),
    "both": (
        [x, y],
        x[2] + (x.reshape((-1, 2)) * y.reshape((-1, 2))).sum(),
        ["f64[n]", "f64[m]"],
        [(ones(4), ones(4))],
        (ones(2), ones(2)),
    ),
}
MESSAGES = {
    "index": "exported for n >= 3, which does not hold: n is 2, from input 'x' along axis 0.",
    "reshape": "exported for .*floordiv.*, which does not hold: n is 3, from input 'x' along",
    "sum": r"Input 'y' must have size 3 \([nm]\) along axis 0, but the argument's shape is \(4,\)",
    "both": "exported for n >= 3, which does not hold: n is 2, from input 'x' along axis 0.",
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("order", [0, 1])
def test_it_is_checked_in_calls(name, order, tmp_path):
    inputs, output, specs, fitting, wrong = CASES[name]
    f = jaxprgen.compile(inputs, output)
    jaxprgen.save(tmp_path / "f.jxg", f, *specs, vjp_order=order)
    g = jaxprgen.load(tmp_path / "f.jxg")
    for args in fitting:
        np.testing.assert_array_equal(g(*args), f(*args))
    for call in (g, jax.jit(g)):
        with pytest.raises(ArgumentShapeError, match=MESSAGES[name]):
            call(*wrong)
    if order:
        (args, *_) = fitting
        total = jax.grad(lambda *args: g(*args).sum())
        np.testing.assert_array_equal(total(*args), jax.grad(lambda *args: f(*args).sum())(*args))


@pytest.mark.parametrize("name", CASES)
def test_exported_programs_check_it_too(name):
    inputs, output, specs, (args, *_), wrong = CASES[name]
    f = jaxprgen.compile(inputs, output)
    exported = f.export(*specs)
    np.testing.assert_array_equal(exported.call(*args), f(*args))
    with pytest.raises(ValueError, match="Input shapes do not match"):
        exported.call(*wrong)
