"""Names of variables: the user's own, and those that values in a loop have outside of it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from jaxprgen.lowering.names import Apply, Variable, is_a
from jaxprgen.ops.scan import layout_of

_SLICE = re.compile(r"\[-?\d*:-?\d*\]$")


def user_name(variable: Variable) -> str:
    """Return the user's name of a variable, or an empty string.

    `aesara.scan` calls the rows of a sequence ``y[0:]``: here, they are ``y``.
    """
    return _SLICE.sub("", variable.name or "")


class Names(dict[Variable, str]):
    """Names of variables without one of their own: results of loops, and values in their steps.

    A state is named after the loop's result or after the value that it starts from, a row of a
    sequence after the sequence.
    """

    def of(self, variable: Variable) -> str:
        """Return a variable's own name, or else the one that is known of it."""
        return user_name(variable) or self.get(variable, "")

    def add(self, nodes: Sequence[Apply]) -> None:
        """Name the results of loops, and the variables of their steps."""
        for node in nodes:  # `aesara.scan` returns results without their first rows.
            if is_a(node.op, "tensor.Subtensor") and _is_loop(node.inputs[0].owner):
                self._propose(node.inputs[0], self.of(node.outputs[0]))
        for node in filter(_is_loop, nodes):
            for variable, name in self._inside(node):
                self._propose(variable, name)

    def _propose(self, variable: Variable, name: str) -> None:
        if name and not user_name(variable):
            self.setdefault(variable, name)

    def _inside(self, loop: Apply) -> Iterator[tuple[Variable, str]]:
        """Yield names of the inputs and outputs of a loop's step."""
        layout = layout_of(loop)
        inputs, outputs = iter(layout.graph.inputs), iter(layout.graph.outputs)
        results = iter(loop.outputs)

        def given(positions: Iterable[int]) -> Iterator[tuple[Variable, str]]:
            return ((next(inputs), self._origin(loop.inputs[i])) for i in positions)

        yield from given(layout.sequences)
        for _, reads, writes, _ in layout.windows:
            for items, count in ((inputs, len(reads)), (outputs, len(writes)), (results, 1)):
                _skip(items, count)
        for position, taps in layout.states:
            name = self.of(next(results)) or self._origin(loop.inputs[position])
            yield from ((next(inputs), name) for _ in taps)
            yield next(outputs), name
        for _ in layout.stacks:
            yield next(outputs), self.of(next(results))
        _skip(inputs, len(layout.carried))
        yield from given(layout.constants)

    def _origin(self, variable: Variable) -> str:
        """The name of a variable, or of the one that it is a part of or begins with."""
        while not self.of(variable) and is_a(getattr(variable.owner, "op", None), *_VIEWS):
            assert variable.owner is not None
            begins = is_a(variable.owner.op, "tensor.IncSubtensor")
            variable = variable.owner.inputs[1 if begins else 0]
        return self.of(variable)


_VIEWS = ("tensor.Subtensor", "tensor.IncSubtensor", "tensor.DimShuffle", "tensor.Unbroadcast")


def _is_loop(node: Apply | None) -> bool:
    return node is not None and is_a(node.op, "scan.Scan")


def _skip(items: Iterator[object], count: int) -> None:
    for _ in itertools.islice(items, count):
        pass
