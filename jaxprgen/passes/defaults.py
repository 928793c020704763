"""The passes that are applied by default."""

from __future__ import annotations

from jaxprgen.passes.fewer_kernels import FewerKernels
from jaxprgen.passes.guard_branches import GuardBranches
from jaxprgen.passes.loop_distribution import DistributeScan, MapToVmap
from jaxprgen.passes.meaning import Pass
from jaxprgen.passes.reverse_scan import ReverseScan
from jaxprgen.passes.scan_repeats import ScanRepeats
from jaxprgen.passes.share_scan import ShareScan
from jaxprgen.passes.sink_zeros import SinkZeros
from jaxprgen.passes.stabilize import Stabilize
from jaxprgen.passes.vmap_repeats import VmapRepeats

_FIRST = (ScanRepeats(reassociate=True), VmapRepeats(reassociate=True), Stabilize())
_LOOPS = (
    ReverseScan(),
    ShareScan(),
    MapToVmap(reassociate=True),
    DistributeScan(reassociate=True),
)

# Masks come last, because they would hide what the passes before them look for.
DEFAULT: tuple[Pass, ...] = (*_FIRST, *_LOOPS, GuardBranches(), FewerKernels())
"""The passes for JAX functions: ``default()``.

If one of the objects that `default` returns fails, wherever it is applied, the program stays as it
was, and a `jaxprgen.errors.PassWarning` says so. Another object, such as ``Stabilize()``, raises an
error.
"""

FOR_GRAPHS: tuple[Pass, ...] = (
    *_FIRST,
    SinkZeros(),
    *_LOOPS,
    GuardBranches(ties="first"),
    FewerKernels(),
)
"""The passes for graphs: ``default(graph=True)``."""


def default(*, graph: bool = False) -> tuple[Pass, ...]:
    """Return the default passes.

    Parameters
    ----------
    graph : bool
        Whether the program is a graph's, as for `jaxprgen.compile`. Its gradients are those that
        the library's default modes compute: a zero that a choice put wins in products, and the
        first operand of a maximum or minimum has the whole derivative where both are equal.

    Returns
    -------
    tuple of Pass
        The passes, in order: always the same objects.
    """
    return FOR_GRAPHS if graph else DEFAULT
