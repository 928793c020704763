"""The passes that are applied by default."""

from __future__ import annotations

import functools

from jaxprgen.passes.costs import CostModel
from jaxprgen.passes.fewer_kernels import FewerKernels
from jaxprgen.passes.guard_branches import GuardBranches
from jaxprgen.passes.loop_distribution import DistributeScan, MapToVmap
from jaxprgen.passes.meaning import Pass
from jaxprgen.passes.repetitions import ScanRepeats, VmapRepeats
from jaxprgen.passes.reverse_scan import ReverseScan
from jaxprgen.passes.share_scan import ShareScan
from jaxprgen.passes.sink_zeros import SinkZeros
from jaxprgen.passes.stabilize import Stabilize

_made: dict[int, Pass] = {}  # The objects that `default` returned, by identity.


@functools.cache
def default(*, calls: int = 10_000, graph: bool = False, platform: str = "") -> tuple[Pass, ...]:
    """Return the default passes.

    If one of the objects that this returns fails, wherever it is applied, the program stays as it
    was, and a `jaxprgen.errors.PassWarning` says so. Another object, such as ``Stabilize()``,
    raises an error.

    Parameters
    ----------
    calls : int
        How often the program is called. The passes keep the time to compile it and to call it this
        often short. The default is what a sampler makes in seconds.
    graph : bool
        Whether the program is a graph's, as for `jaxprgen.compile`. Its gradients are those that
        the library's default modes compute: a zero that a choice put wins in products, and the
        first operand of a maximum or minimum has the whole derivative where both are equal.
    platform : str
        The platform that the program is for, such as "cpu" or "gpu". By default, that of JAX's
        default device.

    Returns
    -------
    tuple of Pass
        The passes, in order: the same objects for the same arguments.
    """
    cost = CostModel(calls, platform)
    passes = (
        ScanRepeats(reassociate=True, cost=cost),
        VmapRepeats(reassociate=True, cost=cost),
        Stabilize(),
        *([SinkZeros()] if graph else []),
        ReverseScan(),
        ShareScan(),
        MapToVmap(reassociate=True),
        DistributeScan(reassociate=True, cost=cost),
        # Masks come last, because they would hide what the passes before them look for.
        GuardBranches(ties="first" if graph else "shared"),
        FewerKernels(),
    )
    _made.update((id(own), own) for own in passes)
    return passes


def is_default(rewrite: Pass) -> bool:
    """Return whether a pass is an object that `default` returned."""
    return _made.get(id(rewrite)) is rewrite


def as_default(rewrite: Pass) -> Pass:
    """Return the object of `default` that equals a pass that was one, in another process."""
    own = next((own for own in _made.values() if own == rewrite), rewrite)
    return _made.setdefault(id(own), own)


DEFAULT = default()
"""The passes for JAX functions: ``default()``."""

FOR_GRAPHS = default(graph=True)
"""The passes for graphs: ``default(graph=True)``."""
