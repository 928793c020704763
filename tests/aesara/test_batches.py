"""The examples of all Ops, mapped by `jax.vmap`, give what each call gives."""

import jax
import numpy as np
import pytest
from catalogue import FAMILIES
from laws import assert_same
from profiles import sample

import jaxprgen
from jaxprgen.errors import StaticShapeError

OPS = [
    item
    for family in FAMILIES.values()
    for item in family
    if not item.is_drawn and item.op.__name__ != "CAReduce"  # Its example is of integers.
]


@pytest.mark.filterwarnings("ignore::jaxprgen.errors.RuntimeCheckWarning")
@pytest.mark.parametrize("item", sample(OPS, 30), ids=lambda item: item.op.__name__)
def test_batches_are_those_of_each_call(item):
    dtype = "float64" if "float64" in item.dtypes else item.dtypes[-1]
    try:
        inputs, outputs = item.graph(dtype)
        f = jaxprgen.compile(inputs, outputs)
    except (TypeError, NotImplementedError):
        pytest.skip("Aesara makes no such node, or it has no rule.")
    first = item.arrays(dtype)
    second = [x * 0.75 if x.dtype.kind in "fc" else x for x in first]
    try:
        found = jax.vmap(f)(*(np.stack(pair) for pair in zip(first, second, strict=True)))
    except StaticShapeError as error:
        pytest.skip(f"Values decide a shape: {error}")
    for i, args in enumerate((first, second)):
        for ours, theirs in zip(found, f(*args), strict=True):
            assert_same(np.asarray(ours)[i], np.asarray(theirs), 1e-9)
