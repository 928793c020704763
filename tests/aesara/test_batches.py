"""The examples of all Ops, mapped by `jax.vmap`, give what each call gives."""

import jax
import numpy as np
import pytest
from catalogue import FAMILIES
from catalogue.outcome import compiled
from laws import assert_same
from profiles import sample

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
    _, f, first = compiled(item)
    second = [x * 0.75 if x.dtype.kind in "fc" else x for x in first]
    try:
        found = jax.vmap(f)(*(np.stack(pair) for pair in zip(first, second, strict=True)))
    except StaticShapeError as error:
        pytest.skip(f"Values decide a shape: {error}")
    for i, args in enumerate((first, second)):
        for ours, theirs in zip(found, f(*args), strict=True):
            assert_same(np.asarray(ours)[i], np.asarray(theirs), 1e-9)
