"""Passes: from a program to one that computes the same in another way.

A pass is a frozen dataclass of options, and a function of a `ClosedJaxpr` that gives one; the one
given is never changed. They work on any program of JAX's.
"""

from jaxprgen.passes.associative import AssociativeScan
from jaxprgen.passes.calls import Inline
from jaxprgen.passes.common_subexpressions import EliminateCommonSubexpressions
from jaxprgen.passes.constants import FoldConstants
from jaxprgen.passes.dead_code import EliminateDeadCode
from jaxprgen.passes.directions import ReverseScan
from jaxprgen.passes.hoisting import Hoist
from jaxprgen.passes.loops import DistributeScan, MapToVmap
from jaxprgen.passes.pipeline import Pass, Pipeline, Record
from jaxprgen.passes.reduce_in_scan import ReduceInScan
from jaxprgen.passes.share_scan import ShareScan
from jaxprgen.passes.simplify import Simplify
from jaxprgen.passes.stabilize import Stabilize

DEFAULT: tuple[Pass, ...] = (
    Stabilize(),
    ReverseScan(),
    ShareScan(),
    MapToVmap(reassociate=True),
    DistributeScan(reassociate=True),
)
"""What `jaxprgen.compile` does to the program it emitted."""

__all__ = [
    "DEFAULT",
    "AssociativeScan",
    "DistributeScan",
    "EliminateCommonSubexpressions",
    "EliminateDeadCode",
    "FoldConstants",
    "Hoist",
    "Inline",
    "MapToVmap",
    "Pass",
    "Pipeline",
    "Record",
    "ReduceInScan",
    "ReverseScan",
    "ShareScan",
    "Simplify",
    "Stabilize",
]
