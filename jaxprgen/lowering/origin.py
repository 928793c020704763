"""The names and lines of a graph's variables, their own or those of their nearest ancestors."""

from __future__ import annotations

from collections.abc import Sequence

from jaxprgen import _jax
from jaxprgen._jax import Frame, SourceInfo

_NOWHERE = 1 << 40
"""The distance of a name or line that no ancestor has."""
_FAR = 1 << 20
"""The distance of the line that declares an input, the last resort for what it computes."""


class Origins:
    """The names and lines of a graph's variables, added in an order of computing.

    A variable inherits a name or a line along the fewest nodes, and if several inputs are equally
    near, from the first of them.
    """

    def __init__(self) -> None:
        self._names: list[tuple[int, str]] = []
        self._frames: list[tuple[int, Frame | None]] = []

    def add_leaf(self, name: str | None, frame: Frame | None) -> None:
        """Add an input, a constant or a shared variable."""
        self._names.append((0, name) if name else (_NOWHERE, ""))
        self._frames.append((_FAR, frame) if frame else (_NOWHERE, None))

    def add_node(
        self, inputs: Sequence[int], names: Sequence[str | None], frame: Frame | None
    ) -> None:
        """Add the outputs of a node, given their own names and the node's line."""
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
        """Return the names and lines that equations carry, by place."""
        pairs = zip(self._names, self._frames, strict=True)
        return _jax.source_infos([(name, frame) for (_, name), (_, frame) in pairs])
