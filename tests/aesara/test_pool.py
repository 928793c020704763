"""Pooling over any number of axes: values, derivatives, and derivatives of these."""

import warnings
from typing import NamedTuple

import aesara
import aesara.tensor as at
import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st
from laws import (
    DTYPES,
    assert_agrees,
    assert_derivatives,
    assert_same,
    equations,
    reference,
    refusal,
)
from profiles import examples

import jaxprgen
from jaxprgen._jax import check_jaxpr
from jaxprgen.errors import ShapeMismatchError, StaticShapeError, UnsupportedOpError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # `aesara.tensor.signal` is deprecated.
    from aesara.tensor.signal.pool import (
        AveragePoolGrad,
        DownsampleFactorMaxGradGrad,
        MaxPoolGrad,
        MaxPoolRop,
        Pool,
        max_pool_2d_same_size,
        pool_2d,
    )

MEANS = ["sum", "average_inc_pad", "average_exc_pad"]
MODES = ["max", *MEANS]


class Case(NamedTuple):
    shape: tuple[int, ...]
    ignore_border: bool
    sizes: list[int]
    strides: list[int]
    pads: list[int]

    @property
    def rank(self):
        return len(self.sizes)

    @property
    def geometry(self):
        return tuple(np.array(row) for row in (self.sizes, self.strides, self.pads))

    def pool(self, mode, *args):
        return Pool(self.ignore_border, mode, self.rank)(*args)

    def pooled(self):
        shape = Pool.out_shape(
            self.shape, *self.geometry[:1], self.ignore_border, *self.geometry[1:], self.rank
        )
        return tuple(int(n) for n in shape)

    def windows(self):
        """The place of each window, and what of it is inside of the array."""
        first = len(self.shape) - self.rank
        for place in np.ndindex(*self.pooled()):
            bounds = zip(place[first:], *self.geometry, self.shape[first:], strict=True)
            inside = [
                slice(max(i * step - pad, 0), min(i * step - pad + size, n))
                for i, size, step, pad, n in bounds
            ]
            yield place, (*place[:first], *inside)


@st.composite
def cases(draw):
    rank = draw(st.integers(1, 3))
    ignore_border = draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    strides = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    pads = [draw(st.integers(0, n - 1)) if ignore_border else 0 for n in sizes]
    batch = draw(st.lists(st.integers(0, 2), max_size=2))
    shape = draw(st.lists(st.integers(1, 6), min_size=rank, max_size=rank))
    return Case((*batch, *shape), ignore_border, sizes, strides, pads)


def tensor(dtype, rank, name=None):
    return at.tensor(dtype, shape=[None] * rank, name=name)


def distinct(shape, seed=0):
    """Different numbers, none of them 0, so that no two tie, nor one with what pads."""
    count = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(count) - count // 2 + 0.5).reshape(shape)


def with_gradients(f, a, *others):
    """The outputs, and JAX's gradients of the products of a cotangent with each of the pools."""

    def products(a):
        return [(z * others[1]).sum() for z in f(a, *others)[: len(MODES)]]

    return jax.jit(lambda a: (f(a, *others), jax.jacrev(products)(a)))(a)


@examples(0.6, quick=0.3)
@given(cases(), st.booleans())
def test_pools_and_their_derivatives(case, ties):
    """Each as in Python mode, and what `aesara.grad` makes of each as JAX's transposed pool."""
    rank = len(case.shape)
    x, w, g = (tensor("float64", rank, name) for name in "xwg")
    geometry = at.lvectors("sizes", "strides", "pads")
    a = distinct(case.shape)
    if ties and not any(case.pads):  # Where Python mode's windows are those they should be.
        a = np.round(a / 3)
    pools = [case.pool(mode, x, *geometry) for mode in MODES]
    options = (case.ignore_border,)
    largest = pools[0]
    slopes = [
        MaxPoolGrad(*options, ndim=case.rank)(x, largest, g, *geometry),
        *(AveragePoolGrad(*options, mode, case.rank)(x, g, *geometry) for mode in MEANS),
    ]
    second = DownsampleFactorMaxGradGrad(*options, ndim=case.rank)(x, largest, w, *geometry)
    args = [a, distinct(case.shape, 1), distinct(case.pooled(), 2), *case.geometry]
    inputs, outputs = [x, w, g, *geometry], [*pools, *slopes, second]
    f = jaxprgen.compile(inputs, outputs)
    check_jaxpr(f.jaxpr(*args).jaxpr)
    found, wanted = with_gradients(f, *args)
    shared = [i for i in range(len(outputs)) if not any(case.pads) or i != 2 * len(MODES) - 1]
    theirs = reference(inputs, [outputs[i] for i in shared], args)  # It lacks that derivative.
    for i, yours in zip(shared, theirs, strict=True):
        assert_same(found[i], yours, where=str(outputs[i].owner))
    for i in range(1 if ties else 0, len(MODES)):
        assert_same(found[len(MODES) + i], wanted[i], where=MODES[i])


FEW = [
    Case((2, 4, 5), True, [2, 2], [2, 2], [0, 0]),
    Case((2, 4, 6), False, [2, 3], [1, 2], [0, 0]),
    Case((2, 1, 5, 5), True, [3, 3], [2, 1], [1, 2]),
    Case((5, 7), False, [1, 2], [3, 3], [0, 0]),
    Case((2, 2, 5), True, [3, 3], [2, 1], [0, 0]),  # Windows do not fit in: there are none.
]


def test_dtypes():
    """Of integers averages are cut off; of booleans they are "or", and so are sums."""
    inputs, outputs, args = [], [], []
    for dtype, case in [(d, FEW[2]) for d in DTYPES] + [("float32", case) for case in FEW[1:]]:
        kind = np.dtype(dtype).kind
        # Python mode lets no sum overflow.
        a = np.random.default_rng(0).normal(size=case.shape).clip(-1, 1) * 10
        inputs.append(tensor(dtype, len(case.shape)))
        args.append((np.abs(a) if kind == "u" else a).astype(dtype))
        modes = MODES[kind == "c" :]
        outputs += [case.pool(mode, inputs[-1], *case.geometry) for mode in modes]
    assert_agrees(inputs, outputs, args)
    x = tensor("complex64", 4)
    f = jaxprgen.compile([x], FEW[2].pool("max", x, *FEW[2].geometry))
    with pytest.raises(UnsupportedOpError, match="no maximum over windows of complex"):
        f(np.ones(FEW[2].shape, "complex64"))


def test_nan_and_infinities():
    x = at.dmatrix()
    a = np.array([[1, np.nan, -np.inf, -np.inf], [np.inf, -np.inf, np.nan, 2], [-np.inf] * 4])
    outputs = [Pool(True, mode, 1)(x, [2], [1]) for mode in MODES]
    assert_agrees([x], outputs, [a])
    assert_agrees([x], [MaxPoolGrad(True, 1)(x, outputs[0], x[:, 1:], [2], [1])], [a])


def test_every_element_that_ties_gets_the_gradient_and_none_outside_of_the_window():
    """With padding, Python mode takes the first window for ``[0, 0, 0]``; C code does not."""
    x, g = at.dvectors("xg")
    z = Pool(True, "max", 1)(x, [3], [3], [1])
    f = jaxprgen.compile([x, g], MaxPoolGrad(True, 1)(x, z, g, [3], [3], [1]))
    ours = f(np.zeros(7), np.array([1.0, 10, 100]))
    np.testing.assert_array_equal(ours, [1, 1, 10, 10, 10, 100, 100])
    known = [at.constant(v) for v in (np.zeros(7), np.zeros(3), np.array([1.0, 10, 100]))]
    assert_same(jaxprgen.compile([], MaxPoolGrad(True, 1)(*known, [3], [3], [1]))(), ours)


@pytest.mark.parametrize("case", FEW[:4])
def test_what_stands_at_the_first_maximum(case):
    """As documented: Python mode has an error there."""
    x, y = (tensor("float64", len(case.shape)) for _ in range(2))
    f = jaxprgen.compile(
        [x, y], MaxPoolRop(case.ignore_border, ndim=case.rank)(x, y, *case.geometry)
    )
    a, e = np.round(distinct(case.shape) / 4), distinct(case.shape, 1)
    a.flat[3], a.flat[-3:] = np.nan, -np.inf
    ours, wanted = f(a, e), np.zeros(case.pooled())
    for place, inside in case.windows():
        wanted[place] = e[inside].flat[np.argmax(a[inside])]
    assert_same(ours, wanted)
    known = MaxPoolRop(case.ignore_border, ndim=case.rank)(a, e, *case.geometry)
    assert_same(jaxprgen.compile([], known)(), wanted)


def test_gradients_as_users_write_them():
    x, w = at.dtensor4("x"), at.dtensor4("w")
    z = pool_2d(x, (3, 2), True, (2, 1), (1, 0))
    loss = at.sum(at.sin(z) * w)
    slope = aesara.grad(loss, x)
    bend = at.sum(at.cos(slope) * x)
    a = distinct((2, 1, 5, 4)) / 9
    args = a, np.random.default_rng(0).normal(size=np.shape(jaxprgen.compile([x], z)(a)))
    assert_derivatives([x, w], loss, args, [x])
    f = jaxprgen.compile([x, w], bend)
    bent = jaxprgen.compile([x, w], aesara.grad(bend, w))
    assert_same(jax.jit(jax.grad(f, 1))(*args), bent(*args), 1e-10)


def test_equations():
    """Windows that do not overlap are reshapes, and a pool is one equation."""
    x, a = at.dtensor4("x"), np.round(distinct((1, 2, 4, 4)) / 5)
    f = assert_agrees([x], [max_pool_2d_same_size(x, (2, 2))], [a])
    names = {"reduce_window_max", "reshape", "broadcast_in_dim", "eq", "select_n"}
    assert set(equations(f, a)) == names
    for mode in ("max", "sum"):
        f = jaxprgen.compile([x], pool_2d(x, (3, 3), True, mode=mode))
        assert equations(f, a) == [f"reduce_window_{mode}"]


def test_windows_must_be_known_and_possible():
    x, g, sizes, pads = at.dvector("x"), at.dvector("g"), at.lvector("sizes"), at.lvector("pads")
    one, y = np.array([1]), np.ones(4)
    f = jaxprgen.compile([x, sizes, pads], Pool(True, "max", 1)(x, sizes, [1], pads))
    assert f(y, one, 0 * one).shape == (4,)
    with pytest.raises(StaticShapeError, match="'sizes'"):
        jax.jit(f)(y, one, 0 * one)
    refused = {
        "Invalid pooling window: sizes and strides must be >= 1 and padding >= 0, got sizes (0,), "
        "strides (1,) and padding (1,).": (one * 0, one),
        "Pooling over 1 axes needs as many sizes, strides and paddings, got [(1, 1), (1,), "
        "(1,)].": (np.array([1, 1]), one),
        "The maximum over a window that holds only padding is not defined.": (one, 2 * one),
    }
    for message, args in refused.items():
        assert refusal(ShapeMismatchError, f, y, *args)[0] == message
    gradient = "The gradient of a pool must have shape (2,), got (3,)."
    array = "The array to {} at maxima must have shape (4,), got (3,)."
    for slope, message in [
        (AveragePoolGrad(True, "sum", 1)(x, g, [2]), gradient),
        (MaxPoolGrad(True, 1)(x, x[:2], g, [2]), gradient),
        (DownsampleFactorMaxGradGrad(True, ndim=1)(x, x[:2], g, [2]), array.format("sum")),
        (MaxPoolRop(True, ndim=1)(x, g, [2]), array.format("read")),
    ]:
        g_of = jaxprgen.compile([x, g], slope)
        assert refusal(ShapeMismatchError, g_of, y, np.ones(3))[0] == message
