"""Writes at indices broadcast only what PyTensor's types say."""

import jax
import numpy as np
import pytest

import jaxprgen
from jaxprgen.errors import ShapeMismatchError

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
PYTHON = pytensor.compile.mode.Mode("py", None)
X, INDEX = np.zeros((3, 2), "float32"), np.array([0, 2, 0])


@pytest.mark.parametrize("write", ["set", "inc"])
@pytest.mark.parametrize("shape", [(3, 2), (1, 2), (3, 1), (2,), (1,), ()], ids=str)
@pytest.mark.parametrize("declared", [True, False])
def test_sizes_of_one_are_repeated_if_they_are_declared(write, shape, declared):
    x, i = pt.fmatrix("x"), pt.lvector("i")
    static = [1 if n == 1 and declared else None for n in shape]
    y = pt.tensor("y", dtype="float32", shape=static)
    output = getattr(x[i], write)(y)
    values = X, np.arange(np.prod(shape), dtype="float32").reshape(shape) + 1, INDEX
    ours = jaxprgen.compile([x, y, i], output, checks=True)
    try:
        expected = pytensor.function([x, y, i], output, mode=PYTHON)(*values)
    except ValueError:
        with pytest.raises(ShapeMismatchError, match="Runtime broadcasting not allowed"):
            ours(*values)
    else:
        np.testing.assert_array_equal(ours(*values), expected)


@pytest.mark.parametrize("write", ["set", "inc"])
def test_what_a_mask_selects_is_written_between_slices(write):
    x, y = pt.dtensor3("x"), pt.dvector("y")
    mask = y > 0
    output = getattr(x[:, mask, 1:], write)(2 * x[:, mask, :3])
    values = np.arange(24.0).reshape(2, 3, 4), np.array([1.0, -1.0, 2.0])
    expected = pytensor.function([x, y], output, mode=PYTHON)(*values)
    np.testing.assert_array_equal(jax.jit(jaxprgen.compile([x, y], output))(*values), expected)


def test_one_program_rolls_by_all_shifts():
    x, n = pt.dmatrix("x"), pt.lscalar("n")
    f = jax.jit(jaxprgen.compile([x, n], pt.roll(x, n, axis=1)))
    values = np.arange(8.0).reshape(2, 4)
    for shift in range(-6, 7):
        np.testing.assert_array_equal(f(values, shift), np.roll(values, shift, axis=1))
    slope = jax.grad(lambda x, n: (f(x, n)[0] ** 2 * np.arange(4)).sum())(values, 1)
    np.testing.assert_array_equal(slope, [2 * values[0] * [1, 2, 3, 0], np.zeros(4)])
