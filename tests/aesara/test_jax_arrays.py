"""JAX arrays where Aesara takes NumPy arrays while a graph is built."""

import aesara
import aesara.tensor as at
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from laws import assert_same

from jaxprgen.errors import InvalidGraphError

x = at.dvector("x")
ARRAY = np.arange(3.0)


def _shared(a):
    held = aesara.shared(a, name="held")
    f = aesara.function([], held * 2, updates={held: held + a})
    return [f(), held.get_value(), f(), held.get_value(borrow=True)]


BUILDS = {
    "variable": lambda a: at.as_tensor_variable(a, name="a", ndim=2).eval(),
    "dtype": lambda a: at.as_tensor_variable(a, dtype="float32").eval(),
    "integer": lambda a: at.as_tensor(a.astype("int32")[1]).eval(),
    "boolean": lambda a: at.as_tensor(a > 1).eval(),
    "operand": lambda a: (x + a).eval({x: ARRAY}),
    "left operand": lambda a: (a @ x).eval({x: ARRAY}),
    "part of a stack": lambda a: at.stack([x, a]).eval({x: ARRAY}),
    "sequence of a scan": lambda a: aesara.scan(lambda v: v * 2, sequences=a)[0].eval(),
    "parameter": lambda a: at.random.normal(a, 0.0).shape.eval(),
    "shared": _shared,
    "shared scalar": lambda a: _shared(a[1]),
    "strict": lambda a: aesara.shared(a, strict=True, shape=(3,), borrow=True).type.shape,
    "givens": lambda a: aesara.function([], x * 2, givens={x: a})(),
    "argument": lambda a: aesara.function([x], x * 2)(a),
    "value of an input": lambda a: aesara.function([aesara.In(x, value=a)], x * 2)(),
}


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_graphs_are_those_of_numpy_arrays(build):
    wanted, found = build(ARRAY), build(jnp.asarray(ARRAY))
    if isinstance(wanted, np.ndarray):
        wanted, found = [wanted], [found]
    for mine, yours in zip(found, wanted, strict=True):
        assert type(mine) is type(yours)
        assert_same(mine, yours)


def test_shared_values_can_be_written_into():
    held = aesara.shared(jnp.asarray(ARRAY), borrow=True)
    held.get_value(borrow=True)[...] = 5
    assert_same((held + 1).eval(), np.full(3, 6.0))


@pytest.mark.parametrize("take", [at.as_tensor_variable, aesara.shared])
def test_values_that_jax_traces_are_refused(take):
    with pytest.raises(InvalidGraphError, match=r"float64\[3\]\.\nMake it an input of the graph"):
        jax.jit(lambda v: take(v) and v)(ARRAY)
    with pytest.raises(TypeError, match="PRNGKey"):
        take(jax.random.key(0))
