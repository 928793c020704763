"""Rules for `aesara.sparse` and `pytensor.sparse`, in modules named as PyTensor's.

Sparse matrices are `jaxprgen.emit.sparse.Sparse` while lowering; those that are constants are
SciPy's.
"""

from jaxprgen.ops.sparse import basic as basic, math as math, rewriting as rewriting
