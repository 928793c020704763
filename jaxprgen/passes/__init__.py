"""Passes: functions that rewrite a program into another one that computes the same.

A pass is a frozen dataclass of options. Called with a `ClosedJaxpr`, it returns another one and
never changes the one it is given. Passes work on any JAX program; `jaxprgen.transform` applies them
to JAX functions.

Each module and the modules of this package that it needs:

- `meaning`: classes of passes by what they preserve (no other module).
- `costs`: `CostModel` weighs the time to compile a program against that of its calls (no other
  module).
- `defaults`: `default` and `DEFAULT`, the passes that are applied by default (their modules).
- `inputs`: inputs on which programs are compared (no other module).
- `validation`: compare what a program computes before and after a pass (`inputs`, `meaning`).
- `pipeline`: run passes in turn, and check what each returns (`defaults`, `repeat_notes`,
  `validation`).
- `observers`: print or time the passes of a pipeline (`pipeline`).
- `elimination`: `EliminateDeadCode`, `EliminateCommonSubexpressions`.
- `constant_folding`: `FoldConstants` evaluates equations whose operands are known.
- `simplify`: `Simplify` applies algebraic identities.
- `stabilize`: `Stabilize` replaces formulas that overflow or cancel (`simplify`).
- `inlining`: `Inline` replaces calls by the programs they call.
- `hoisting`: `Hoist` moves loop-invariant code out of loops (`inlining`).
- `reverse_scan`: `ReverseScan` runs loops backwards to avoid reversed arrays (`inlining`).
- `share_scan`: `ShareScan` lets one loop stack what another one would compute again (`costs`).
- `batching`: equations and programs on all rows, as JAX batches them (no other module).
- `scan_batching`: batch the steps of one loop, as far as its recurrences allow (`batching`,
  `costs`, `inlining`, `unbatching`).
- `loop_distribution`: `MapToVmap` and `DistributeScan` move work out of loops (`scan_batching`).
- `sums`: terms of sums in their written order, and what repeats in them (no other module).
- `repeats`: find equations that are alike (`inlining`, `sums`).
- `writes`, `joins`: join what a program writes to an array block by block, or in stages
  (`constant_folding`, `packs`, `repeats`).
- `copies`: copies of one body, and the proof that they are (`repeats`).
- `recurrences`: find the steps of recurrences among them (`copies`).
- `repeat_notes`: what these passes found, for those who listen (no other module).
- `kernels`: what XLA compiles, and what of it only once (`costs`, `repeats`).
- `choices`: choose which of them stay as they are written (`copies`, `kernels`, `recurrences`).
- `packs`, `packing`: write a program with rows and loops in their place (`batching`,
  `copies`, `inlining`, `kernels`, `unbatching`).
- `repetitions`: `VmapRepeats` and `ScanRepeats` batch and loop what a program repeats (`packing`,
  `choices`, `recurrences`, `elimination`).
- `associative_scan`: `AssociativeScan` solves affine recurrences in a logarithmic number of steps
  (`scan_batching`, `inlining`).
- `unbatching`: from an equation on all rows to an equation on one row (`places`).
- `conditions`: where cases of choices hold, as conditions that analyses combine.
- `places`: which elements an equation reads for one of its result, and how steep it may be.
- `sink_zeros`: `SinkZeros` keeps zeros that a choice put (`conditions`, `places`,
  `inlining`).
- `predicates`: comparisons that say the same wherever they are read (`places`, `inlining`).
- `guard_branches`: `GuardBranches` keeps derivatives of branches that are not taken out of
  gradients (`conditions`, `places`, `predicates`, `inlining`).
- `fewer_kernels`: `FewerKernels` writes gamma functions and derivatives that compile sooner
  (`inlining`).
- `reduce_in_scan`: `ReduceInScan` fuses reductions with the loop before them (`unbatching`,
  `inlining`).
"""

from jaxprgen.passes.associative_scan import AssociativeScan
from jaxprgen.passes.constant_folding import FoldConstants
from jaxprgen.passes.costs import CostModel
from jaxprgen.passes.defaults import DEFAULT, default
from jaxprgen.passes.elimination import EliminateCommonSubexpressions, EliminateDeadCode
from jaxprgen.passes.fewer_kernels import FewerKernels
from jaxprgen.passes.guard_branches import GuardBranches
from jaxprgen.passes.hoisting import Hoist
from jaxprgen.passes.inlining import Inline
from jaxprgen.passes.loop_distribution import DistributeScan, MapToVmap
from jaxprgen.passes.meaning import Meaning, Pass
from jaxprgen.passes.pipeline import Pipeline, Record
from jaxprgen.passes.reduce_in_scan import ReduceInScan
from jaxprgen.passes.repetitions import ScanRepeats, VmapRepeats
from jaxprgen.passes.reverse_scan import ReverseScan
from jaxprgen.passes.share_scan import ShareScan
from jaxprgen.passes.simplify import Simplify
from jaxprgen.passes.sink_zeros import SinkZeros
from jaxprgen.passes.stabilize import Stabilize

__all__ = [
    "DEFAULT",
    "AssociativeScan",
    "CostModel",
    "DistributeScan",
    "EliminateCommonSubexpressions",
    "EliminateDeadCode",
    "FewerKernels",
    "FoldConstants",
    "GuardBranches",
    "Hoist",
    "Inline",
    "MapToVmap",
    "Meaning",
    "Pass",
    "Pipeline",
    "Record",
    "ReduceInScan",
    "ReverseScan",
    "ScanRepeats",
    "ShareScan",
    "Simplify",
    "SinkZeros",
    "Stabilize",
    "VmapRepeats",
    "default",
]
