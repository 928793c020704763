"""Containers of shared variables that tell the variable's cell who asks for the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxprgen import _jax
from jaxprgen.errors import ArgumentShapeError, ArgumentTypeError
from jaxprgen.graphs.cells import Cell
from jaxprgen.graphs.tables import container_copy


class CellMixin:
    """Makes of a graph library's container one that has a cell; comes before that class.

    The value may be a JAX array. One that several devices hold is stored as it is; of another one
    that is set, the library stores a copy in memory of the host.
    """

    cell: Cell
    type: Any
    name: Any
    readonly: bool
    strict: bool
    allow_downcast: bool | None

    @classmethod
    def instead_of(cls, container: Any, *, is_lent: bool) -> Any:
        """Return a container in place of one that nobody else has.

        Parameters
        ----------
        container
            A container of the library.
        is_lent
            Whether someone else may have the value.
        """
        twin = object.__new__(cls)
        for name, value in vars(container).items():
            setattr(twin, name, value)
        twin.cell.set(container.storage[0], is_lent=is_lent)
        return twin

    @property
    def storage(self) -> list[Any]:
        """The list that holds the value. The library's functions ask for it when they are made."""
        return self.cell.hand_over()

    @storage.setter
    def storage(self, storage: list[Any]) -> None:
        self.cell = Cell(storage, True)

    def _get(self) -> Any:
        return self.cell.lend()

    def _set(self, value: Any) -> None:
        if self.readonly:
            raise TypeError(f"{self.name} cannot be set.")
        try:
            self.cell.set(value if value is None else self._filtered(value))
        except Exception as error:
            error.args = (*error.args, f'Container name "{self.name}"')
            raise

    value = data = property(_get, _set)

    def _filtered(self, value: Any) -> Any:
        if _jax.is_on_several_devices(value):
            return _admitted(value, self)
        return self.type.filter(value, strict=self.strict, allow_downcast=self.allow_downcast)

    def __str__(self) -> str:
        return f"<{self.cell.show()}>"

    def __repr__(self) -> str:
        return f"<{self.cell.show()!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return container_copy(self, memo)


def give_cells(constructor: Any, container: type[CellMixin]) -> None:
    """Let the shared variables of a library have cells that know who has their values.

    Parameters
    ----------
    constructor
        The library's registry of functions that make shared variables, by types of values.
    container
        The class of the variables' containers.
    """

    def with_cell(make: Callable[..., Any]) -> Callable[..., Any]:
        def shared(value: Any, borrow: bool = False, **options: Any) -> Any:
            variable = make(value, borrow=borrow, **options)
            variable.container = container.instead_of(variable.container, is_lent=borrow)
            return variable

        return shared

    for kind in (np.ndarray, np.number, float, int, complex):
        constructor.register(kind, with_cell(constructor.dispatch(kind)))


def _admitted(value: Any, container: Any) -> Any:
    """Return an array that several devices hold as a container's type declares it."""
    name, declared = container.name, container.type
    if value.ndim != declared.ndim or any(
        n not in (None, m) for n, m in zip(declared.shape, value.shape, strict=True)
    ):
        raise ArgumentShapeError(
            f"Shared variable {name!r} is a {declared}; an array of shape {value.shape} cannot be "
            "its value."
        )
    if value.dtype == _jax.canonicalize_dtype(np.dtype(declared.dtype)):
        return value
    if not (container.allow_downcast or np.can_cast(value.dtype, declared.dtype)):
        raise ArgumentTypeError(
            f"Shared variable {name!r} has dtype {declared.dtype}, which cannot hold all values of "
            f"the array's {value.dtype}. Convert it with .astype({declared.dtype!r}) if the loss "
            "is meant."
        )
    with _jax.eval_context():
        return value.astype(_jax.canonicalize_dtype(np.dtype(declared.dtype)))
