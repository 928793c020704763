"""PyTensor as a graph library, the rules for Ops that it alone has, and its mode "JAXPR".

Most Ops have the rules of `jaxprgen.ops`. A rule here names the Op with its library, as in
"pytensor.tensor.Elemwise", if Aesara's Op of that name has another one.
"""

import pytensor as pytensor

from jaxprgen import ops as ops
from jaxprgen.graphs.library import GraphLibrary
from jaxprgen.lowering.registry import lowers_package
from jaxprgen.pytensor import (
    basic as basic,
    blockwise as blockwise,
    builders as builders,
    containers as containers,
    elemwise as elemwise,
    linalg as linalg,
    random as random,
    registered as registered,
)
from jaxprgen.pytensor.dimensions import without_dimensions

lowers_package("pytensor.tensor.optimize", "jaxprgen.pytensor.optimize")
lowers_package("pymc", "jaxprgen.pymc.rules")
lowers_package("pytensor.sparse", "jaxprgen.ops.sparse")
lowers_package("pytensor.typed_list", "jaxprgen.ops.typed_list")


LIBRARY = GraphLibrary(lambda op: op, without_dimensions)

from jaxprgen.pytensor import linker as linker  # noqa: E402  # It needs LIBRARY.
