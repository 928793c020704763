"""NumPy's vocabulary on values of a program. Knows no graph library.

A function takes and returns `jaxprgen.emit.values.Value`, and appends the equations that it needs
to the builder of the innermost ``with builder:`` (`jaxprgen.ir.current_builder`). Shapes broadcast
as in NumPy. Operators of values promote dtypes; most functions do not: callers convert operands
with `Value.astype`, because only they know the dtype to compute in. Axes are nonnegative.

- `values`, `sizes`: `Value` with its operators, the functions that make
  values and combine them (`full`, `broadcast_to`), the common dtypes and shapes of operands, and
  sizes that may be symbolic.
- `primitives`: every primitive of `jax.lax` as a function of values.
- `elementwise`, `division`, `complex_numbers`, `transcendental`: ufuncs, such as `exp`, `maximum`,
  `where`, `remainder` and `power`.
- `create`, `shape`, `diagonal`: ranges and identities; `reshape`, `transpose`, `concatenate`,
  `stack`; diagonals and triangles.
- `reduce`, `sort`, `fixed_size`: `sum`, `max`, `argmax`, `cumsum`; sorting and searching; `unique`
  and `nonzero` of a given size.
- `index`, `gather`, `ravel`: basic and advanced indexing, for reading and writing.
- `sparse`, `sparse_math`: sparse matrices, their formats, sums and products.
- `linalg`, `systems`, `tridiagonal`, `matrix`, `decompositions`, `small_systems`: products; linear
  equations; inverses and functions of matrices; factorizations; both of two or three rows.
- `fft`, `convolution`, `windows`, `pooling`, `normalization`, `softmax`: signals and neural
  networks.
- `random`, `distributions`, `rejection`, `polya_gamma`, `inversion`, `mrg31k3p`: draws.
- `control`, `recurrence`: loops and branches.
- `lazy`, `deferred`, `selection`: arrays that a program may not need, and run-time masks.
- `callback`, `checks`, `constraints`, `staged`, `solvers`: Python on the host, checks, routines
  that JAX traces, and minima and roots among these.
- `custom_derivatives`, `formula`: functions with derivatives or precision of their own.
"""

# These register operators of values, so that any value has them.
from jaxprgen.emit import (
    division as division,
    elementwise as elementwise,
    gather as gather,
    linalg as linalg,
)
