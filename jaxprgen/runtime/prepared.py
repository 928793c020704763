"""What data decide of a program: computed once for each value of the data, not in each call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any

from jaxprgen import _jax
from jaxprgen._jax import ArrayImpl, ClosedJaxpr
from jaxprgen.emit.values import Array
from jaxprgen.graphs.shardings import to_device
from jaxprgen.ir.binding_times import Stages, staged
from jaxprgen.passes.costs import CostModel

MEMORY = 2**28
"""The most bytes that the values of one program take."""
MEMORY_IN_TRACES = 2**24
"""The most bytes that they take in a trace, where they are constants of another program."""
_TO_COMPILE = 0.03
"""The seconds that the first stage takes to compile, more than as a part of one program."""
_TO_HAND_OVER = 1e-6
"""The seconds that a call takes for each array that it hands over."""


def stages_of(closed: ClosedJaxpr, data: Collection[Any], cost: CostModel) -> Stages | None:
    """Return a program in two stages, or None if calls in one stage cost less in all.

    Parameters
    ----------
    closed : ClosedJaxpr
        A program without constants.
    data : collection of Var
        Its inputs that are data.
    cost : CostModel
        How often the program is called.
    """
    # A size that the arguments have is no data, though equations that have it may read no argument.
    if any(_jax.is_symbolic(n) for v in closed.in_avals for n in v.shape):
        return None
    found = staged(closed, data)
    if found is None:
        return None
    first = found.first.jaxpr
    if sum(_jax.nbytes(v.aval) for v in first.outvars) > MEMORY:
        return None
    saved = cost.computing(first.eqns) - _TO_HAND_OVER * len(first.outvars)
    return found if cost.calls * saved > _TO_COMPILE else None


class Prepared:
    """Computes the values of a first stage, and keeps them until the data change.

    Parameters
    ----------
    first : ClosedJaxpr
        The first stage.
    sources : sequence of array or int
        For each of its inputs an array that never changes, or a position among the shared values
        and arguments of a call.
    name, jit
        The name of the program, and ``jax.jit`` with its options.

    Attributes
    ----------
    first : ClosedJaxpr
        The first stage.
    nbytes : float
        The size of the values, in bytes.
    """

    def __init__(
        self,
        first: ClosedJaxpr,
        sources: Sequence[Array | int],
        name: str,
        jit: Callable[[Any], Any],
    ) -> None:
        self.first = first
        self.nbytes = sum(map(_jax.nbytes, first.out_avals))
        self._sources = sources
        self._places = [s for s in sources if isinstance(s, int)]
        pairs = zip(first.jaxpr.invars, sources, strict=True)
        avals: list[Any] = [v.aval for v, s in pairs if isinstance(s, int)]
        self._types = [(aval.shape, aval.dtype) for aval in avals]
        params = _jax.jit_params(first, name)

        def run(*data: Any) -> list[Any]:
            return _jax.jit_p.bind(*data, **params)

        run.__name__ = name
        self._run = jit(run)
        self._last: tuple[Sequence[Any], Sequence[Any]] | None = None

    def values(self, given: Sequence[Any]) -> Sequence[Any] | None:
        """Return the values for a call, or None if its data have to be looked at in each call.

        Threads may call this at once. Data of other types are those of another program; what is
        returned then has the right types.

        Parameters
        ----------
        given : sequence of array
            The shared values and the arguments of the call. An array of JAX never changes, so that
            it is known again without a look at its elements.
        """
        data = [given[i] for i in self._places]
        if self._last is not None:
            known, found = self._last
            if all(map(operator.is_, known, data)):
                return found
        # Who splits data over devices has no memory to spare.
        if not all(type(x) is ArrayImpl and not _jax.is_on_several_devices(x) for x in data):
            return None
        if [(x.shape, x.dtype) for x in data] != self._types:
            return None if self._last is None else self._last[1]
        arrays = [s for s in self._sources if not isinstance(s, int)]
        rest, fixed = iter(data), iter(to_device(arrays))
        operands = [next(rest if isinstance(s, int) else fixed) for s in self._sources]
        with _jax.eval_context():
            found = self._run(*operands)
        self._last = data, found
        return found
