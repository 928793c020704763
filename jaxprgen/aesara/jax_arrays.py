"""JAX arrays in Aesara graphs: as constants, as values of shared variables and in ``givens``."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from aesara.compile import sharedvalue
from aesara.tensor import _as_tensor_variable  # pyright: ignore[reportPrivateUsage]
from aesara.tensor.basic import constant
from aesara.tensor.sharedvar import tensor_constructor
from aesara.tensor.var import TensorConstant

from jaxprgen._jax import Tracer
from jaxprgen.errors import InvalidGraphError

shared_constructor: Any = sharedvalue.shared_constructor  # Aesara's annotation is too narrow.


@_as_tensor_variable.register(jax.Array)
def _constant(x: Any, name: Any, ndim: Any, dtype: Any = None, **_: Any) -> TensorConstant:
    return constant(np.asarray(x), name=name, ndim=ndim, dtype=dtype)


@shared_constructor.register(jax.Array)
def _shared(value: Any, borrow: bool = False, **options: Any) -> Any:
    return tensor_constructor(np.array(value), borrow=True, **options)


@_as_tensor_variable.register(Tracer)
@shared_constructor.register(Tracer)
def _refused(x: Any, *_: Any, **__: Any) -> Any:
    raise InvalidGraphError(
        f"JAX traces this value, so an Aesara graph cannot hold it: {x.aval.str_short()}.\n"
        "Make it an input of the graph, and pass it to the compiled function."
    )
