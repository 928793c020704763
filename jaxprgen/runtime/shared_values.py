"""The shared variables of a function: each call reads and writes the values of one moment."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jax.sharding import NamedSharding

from jaxprgen import _jax
from jaxprgen.errors import SharedValueWarning, levels_to_user
from jaxprgen.graphs.cells import Cell, holding, locks_of
from jaxprgen.runtime.shardings import require_arguments


class SharedValues:
    """What a function reads of shared variables.

    Parameters
    ----------
    function : str
        The name of the function.
    names, cells
        The variables that it reads. They are also attributes.
    remedy : str
        How to pass the values as arguments, for errors and the warning.
    shardings
        Where values are to live, by position.
    reused
        The positions of values whose memory programs may reuse for new ones.
    also
        Further variables that the function writes.
    """

    def __init__(
        self,
        function: str,
        names: Sequence[str],
        cells: Sequence[Cell],
        remedy: str,
        shardings: Mapping[int, NamedSharding] | None = None,
        reused: Sequence[int] = (),
        also: Sequence[Cell] = (),
    ) -> None:
        self._function, self.names, self.cells, self._remedy = function, names, cells, remedy
        self._shardings = shardings or {}
        self._by_use = [(cell, i in reused) for i, cell in enumerate(cells)]
        self._locks = locks_of([*cells, *also])
        self._is_news = bool(names)

    def at_once(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function, within which no other one writes the values."""
        return holding(self._locks, function, *args) if self._locks else function(*args)

    def read(self, reuses: bool = False) -> list[Any]:
        """Return the values on the device, within `at_once`.

        With ``reuses``, those whose memory programs may reuse are in memory of their own. If JAX
        makes a program of the call, the user is warned once that it keeps these values.

        Raises
        ------
        ShardingError
            JAX would copy data that are split over devices into that program.
        """
        if reuses:
            self._place()
            return [cell.give() if is_reused else cell.read() for cell, is_reused in self._by_use]
        if _jax.runs_now():
            return self._each(Cell.read)
        require_arguments(self._function, self._data())
        if self._is_news and _jax.is_staged():
            self._is_news = False
            values = "values of " if len(self.names) > 1 else "value of "
            values += ", ".join(map(repr, self.names))
            message = (
                f"JAX traces {self._function!r}, and the program that it makes, such as that of an "
                f"outer jit, keeps the present {values}. It will not notice new values.\n"
            )
            text = f"{message}{self._remedy}"
            warnings.warn(text, SharedValueWarning, stacklevel=levels_to_user())
        return self._each(Cell.lease)

    def stored(self) -> list[Any]:
        """Return the values as they are stored."""
        return self.at_once(self._each, Cell.show)

    def leased(self) -> dict[str, Any]:
        """Return the values on the device by name; the caller may keep them."""
        return dict(zip(self.names, self.at_once(self._each, Cell.lease), strict=True))

    def _each(self, get: Callable[[Cell], Any]) -> list[Any]:
        self._place()
        return [get(cell) for cell in self.cells]

    def _place(self) -> None:
        """Put the values where the user wants them to live."""
        for i, sharding in self._shardings.items():
            self.cells[i].place(sharding, self.names[i])

    def _data(self) -> Iterator[tuple[str, Any, str]]:
        for name, cell in zip(self.names, self.cells, strict=True):
            yield name, cell.value, self._remedy
