"""JAX arrays in Aesara graphs: as constants, as values of shared variables and in ``givens``.

One that several devices hold stays where it is. Of another one, graphs hold a NumPy array.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from aesara.compile import sharedvalue
from aesara.graph.basic import AtomicVariable
from aesara.graph.utils import add_tag_trace
from aesara.tensor import _as_tensor_variable  # pyright: ignore[reportPrivateUsage]
from aesara.tensor.basic import constant
from aesara.tensor.type import TensorType
from aesara.tensor.var import TensorConstant

from jaxprgen import _jax
from jaxprgen._jax import Tracer
from jaxprgen.arguments.shardings import PortableArray
from jaxprgen.errors import InvalidGraphError

shared_constructor: Any = sharedvalue.shared_constructor  # Aesara's annotation is too narrow.


class SpreadConstant(TensorConstant):
    """A constant that several devices hold. Its values are never compared or printed."""

    def __init__(self, type: TensorType, data: Any, name: str | None = None) -> None:
        AtomicVariable.__init__(self, type.clone(shape=data.shape), name=name)
        self.data = data
        add_tag_trace(self)

    def signature(self) -> Any:
        """Return what equals only the signature of constants of the same array."""
        return self.type, _jax.identity(self.data)

    def equals(self, other: Any) -> bool:
        """Return whether another variable is a constant of the same array."""
        return isinstance(other, SpreadConstant) and other.data is self.data

    def __str__(self) -> str:
        return f"{self.name or type(self).__name__}{{{self.data.aval.str_short()}}}"

    def __copy__(self) -> SpreadConstant:
        return SpreadConstant(self.type, self.data, self.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> SpreadConstant:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return SpreadConstant, (self.type, PortableArray(self.data), self.name)


@_as_tensor_variable.register(jax.Array)
def _constant(x: Any, name: Any, ndim: Any, dtype: Any = None, **_: Any) -> TensorConstant:
    if not _jax.is_on_several_devices(x):
        return constant(np.asarray(x), name=name, ndim=ndim, dtype=dtype)
    with _jax.eval_context():
        x = x if dtype is None else x.astype(dtype)
        more = x.ndim if ndim is None else ndim
        x = jax.numpy.expand_dims(x, range(more - x.ndim)) if more > x.ndim else x
        x = jax.numpy.squeeze(x, range(x.ndim - more)) if more < x.ndim else x
    return SpreadConstant(TensorType(x.dtype, x.shape), x, name)


@shared_constructor.register(jax.Array)
def _shared(value: Any, borrow: bool = False, **options: Any) -> Any:
    if not _jax.is_on_several_devices(value):
        return sharedvalue.shared(np.array(value), borrow=True, **options)
    form = np.broadcast_to(np.zeros((), value.dtype), value.shape)  # It takes no memory.
    variable = sharedvalue.shared(form, borrow=True, **options)
    variable.set_value(value, borrow=borrow)
    return variable


@_as_tensor_variable.register(Tracer)
@shared_constructor.register(Tracer)
def _refused(x: Any, *_: Any, **__: Any) -> Any:
    raise InvalidGraphError(
        f"JAX traces this value, so an Aesara graph cannot hold it: {x.aval.str_short()}.\n"
        "Make it an input of the graph, and pass it to the compiled function."
    )
