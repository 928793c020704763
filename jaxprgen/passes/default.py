"""The passes that are applied by default."""

from __future__ import annotations

from jaxprgen.passes.fewer_kernels import FewerKernels
from jaxprgen.passes.loop_distribution import DistributeScan, MapToVmap
from jaxprgen.passes.meaning import Pass
from jaxprgen.passes.reverse_scan import ReverseScan
from jaxprgen.passes.scan_repeats import ScanRepeats
from jaxprgen.passes.share_scan import ShareScan
from jaxprgen.passes.stabilize import Stabilize
from jaxprgen.passes.vmap_repeats import VmapRepeats

DEFAULT: tuple[Pass, ...] = (
    ScanRepeats(reassociate=True),
    VmapRepeats(reassociate=True),
    Stabilize(),
    ReverseScan(),
    ShareScan(),
    MapToVmap(reassociate=True),
    DistributeScan(reassociate=True),
    FewerKernels(),
)
"""The passes that `jaxprgen.compile` applies unless it is given others.

If one of these objects fails, wherever it is applied, the program stays as it was, and a
`jaxprgen.errors.PassWarning` says so. Another object, such as ``Stabilize()``, raises an error.
"""
