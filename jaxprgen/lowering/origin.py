"""Where each variable of a graph comes from: its name and line, or its nearest ancestor's."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprgen import _jax
from jaxprgen._jax import Frame, SourceInfo

_NOWHERE = 1 << 40
"""The distance of what no ancestor has."""
_FAR = 1 << 20
"""The distance of the line that declares an input: a last resort for what is computed from it."""


class Origins:
    """The origins of a graph's variables, which are added in an order of computing, by place.

    A name or a line is inherited along the fewest nodes; of equally near ones, along the first
    input.
    """

    def __init__(self) -> None:
        self._names: list[tuple[int, str]] = []
        self._frames: list[tuple[int, Frame | None]] = []

    def add_leaf(self, name: str | None, frame: Frame | None) -> None:
        """The next variable: an input, a constant or a shared variable."""
        self._names.append((0, name) if name else (_NOWHERE, ""))
        self._frames.append((_FAR, frame) if frame else (_NOWHERE, None))

    def add_node(
        self, inputs: Sequence[int], names: Sequence[str | None], frame: Frame | None
    ) -> None:
        """The next variables: the outputs of a node, whose own names and line are given."""
        near_name: tuple[int, str] = (_NOWHERE, "")
        near_frame: tuple[int, Frame | None] = (_NOWHERE, None)
        for place in inputs:
            if self._names[place][0] < near_name[0]:
                near_name = self._names[place]
            if self._frames[place][0] < near_frame[0]:
                near_frame = self._frames[place]
        near_name = near_name[0] + 1, near_name[1]
        near_frame = (0, frame) if frame else (near_frame[0] + 1, near_frame[1])
        for name in names:
            self._names.append((0, name) if name else near_name)
            self._frames.append(near_frame)

    def source_infos(self) -> list[SourceInfo]:
        """What the equations of each variable carry, by place."""
        names = (name for _, name in self._names)
        return _jax.source_infos(
            list(zip(names, (frame for _, frame in self._frames), strict=True))
        )
