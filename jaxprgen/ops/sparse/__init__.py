"""Rules for `aesara.sparse` and `pytensor.sparse`, in modules named as PyTensor's.

Sparse matrices are `jaxprgen.emit.sparse.Sparse` while lowering; those that are constants are
SciPy's.
"""

from jaxprgen.ops.sparse import basic as basic
from jaxprgen.ops.sparse import math as math
from jaxprgen.ops.sparse import rewriting as rewriting
