"""The repairs that rewrites of Aesara and PyTensor make, and their other rewrites by kind.

A repair is a graph that is NaN, infinite or inaccurate as written, and right after the library's
rewrites. The table, repairs.csv, needs neither library; `tests/aesara/test_repairs.py` and
`tests/pytensor/test_pytensor_repairs.py` check it, and `docs/repairs.py` makes a page of it.
"""

from __future__ import annotations

import csv
import fnmatch
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxprgen

REFUSED = {
    "cancelled": "`x / x` is NaN where `x` is 0, infinite or NaN; cancelling it hides that",
    "cancels": "`log(c) - log(x)` cancels where `x` is near `c`",
    "compensated": "compensated sums and rounding by a large number are written like this",
    "endless": "`x - x` is NaN where `x` is infinite or NaN; 0 would hide that",
    "infinite": "IEEE 754 defines this power of -inf as inf",
    "negative": "powers of negative numbers, which are NaN, would become numbers",
    "rare": "the sign of a number that underflows is that of zero, as in NumPy",
    "reordered": "another order of factors overflows for other numbers",
    "zeros": "zeros in a matrix are numbers like others, and 0 times infinity is NaN",
}
"""Why jaxprgen leaves a graph as it is."""


class Repair(NamedTuple):
    """A graph that a library repairs.

    Attributes
    ----------
    rewrites : str
        The names of the rewrites, in either library.
    formula : str
        The graph. ``D`` is the gradient of the sum with respect to ``x``, as the library writes it.
    x, y : sequence of float
        The vectors at which it is looked at; ``y`` is 1 if none is given.
    right : sequence of float
        The right value.
    slope : sequence of float, optional
        The right derivative of its sum with respect to ``x``, where that is finite.
    only : str
        The library that repairs it, if the other does not.
    refused : str
        Why jaxprgen leaves the graph as it is.
    """

    rewrites: str
    formula: str
    x: Sequence[float]
    y: Sequence[float] = ()
    right: Sequence[float] = ()
    slope: Sequence[float] | None = None
    only: str = ""
    refused: str = ""


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.split()]


def _read(row: dict[str, str]) -> Repair:
    x, y, right, slope = (_numbers(row[name]) for name in ("x", "y", "right", "slope"))
    refused = REFUSED[row["refused"]] if row["refused"] else ""
    return Repair(row["rewrites"], row["formula"], x, y, right, slope or None, row["only"], refused)


with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _file:
    REPAIRS = [_read(row) for row in csv.DictReader(_file)]

NO_REPAIRS = {
    "graphs and constants": """
        merge topo_constant_folding *OpFromGraph local_useless_composite* *assert* local_view_op
        remove_tensor_copy local_useless_elemwise local_op_of_op *cast_cast *einsum*
        local_upcast_elemwise_constant_inputs sidestep_unused_rng_consumer
        remove_constants_and_duplicate_inputs_scipy local_*scalar_tensor* local_tensor_scalar_tensor
        local_useless_2f1grad_loop local_ctc_no_grad local_drain_specify_assumptions
        useless_*xtensor* useless_*xrng*
    """,
    "shapes": """
        *shape* *Shape* *alloc* *dimshuffle* *fill* *second* *broadcast* *BroadcastTo* *join*
        *split* *squeeze* *expand_dims* *blockwise* *Unique* *transpose* local_*reduce*
        local_careduce* local_sum_make_vector local_sum_prod_all_to_none local_argmax_pushdown
        local_useless_slice local_dimshuffle_lift local_join_dims local_split_dims
        local_useless_dimshuffle_makevector local_sort_under_reduce
    """,
    "indexing": """
        *subtensor* *Subtensor* *adv_* *_idx_* *_indices *incsub* *_of_write *sparse_write
        *_constant_indices extract_diag*
    """,
    "linear algebra: another algorithm, which no input makes NaN": """
        *diag* *_solve* *solves* scalar_solve_to_division *det_of_* cholesky_* cho_* *eig* *svd*
        inv_* *kron* *orthogonal* *lu_* reuse_decomposition* lift_linalg* selection_dot_to_indexing
        useless_symmetric_transpose
    """,
    "sparse matrices, BLAS": """
        local_csm_* *sparse* local_usmm* local_structured* local_sampling_dot_csr local_mul_s_*
        *matmul* local_dot_to_mul local_lift_transpose_through_dot local_sumsqr2dot
    """,
    "comparisons, choices, integers and complex numbers: the same bits": """
        local_useless_*comparison local_intdiv_by_one local_uint_constant_indices local_useless_conj
        useless_Conj_of_Conj local_sign_unit local_useless_sign local_useless_abs
        local_div_by_one
    """,
    "signs and orders of sums, products and powers: right as written": """
        local_neg_* local_add_neg_* local_sub_neg_* local_sum_of_neg_*
        useless_Neg_of_Neg local_add_specialize local_add_remove_zeros
        local_mul_specialize local_mul_to_sqr local_abs_*
        local_div_to_reciprocal local_reciprocal_canon local_pow_to_nested_squaring
        local_div_exp_to_mul_exp
    """,
    "functions that are right as written": """
        local_exp_log_nan_switch local_sigmoid_logit local_exp_log_softmax local_polygamma*
        useless_Cosh_of_Arccosh useless_Sinh_of_Arcsinh useless_Tanh_of_Arctanh
    """,
    "losses of classes: one Op in place of two": """
        *crossentropy*
    """,
}
"""Names of rewrites that repair nothing, with wildcards, by what they are about."""


def unclassified(database: Any) -> list[str]:
    """Return the names of a library's rewrites that this file does not mention.

    Parameters
    ----------
    database
        The library's ``optdb``.
    """
    known = {name for repair in REPAIRS for name in repair.rewrites.split()}
    patterns = [pattern for names in NO_REPAIRS.values() for pattern in names.split()]
    return sorted(
        name
        for name in names_of(database) - known
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )


def names_of(database: Any) -> set[str]:
    """Return the names of the library's rewrites that canonicalize, stabilize or specialize.

    Packages such as aeppl register rewrites of their own.
    """
    library = type(database).__module__.partition(".")[0]
    parts = (database[name] for name in ("canonicalize", "stabilize", "specialize"))
    rewrites = (found for part in parts for each in part.__db__.values() for found in each)
    return {found.name for found in rewrites if _made_in(found).startswith(library)}


def _made_in(rewrite: Any) -> str:
    made = getattr(rewrite, "fn", None) or type(rewrite)
    return getattr(made, "__module__", "")


_FUNCTIONS = """
    exp log log1p expm1 sqrt sigmoid erf erfc arctanh tanh arcsinh sinh arccosh cosh sum prod
    switch gt lt dot iv kv nnet
"""


def build(repair: Repair, library: ModuleType, tensor: ModuleType) -> tuple[list[Any], Any]:
    """Return the inputs of a graph, and the graph."""
    x, y = inputs = tensor.dvector("x"), tensor.dvector("y")
    names = {name: getattr(tensor, name) for name in _FUNCTIONS.split() if hasattr(tensor, name)}
    names |= {
        "softmax": lambda x: tensor.special.softmax(x, axis=-1),
        "sign": getattr(tensor, "sign", None) or tensor.sgn,
        "zeros": tensor.zeros(len(repair.x)),
        "rows": x.reshape((-1, 2)),
        "labels": tensor.arange(len(repair.x) // 2),
        "D": lambda y: library.grad(y.sum(), x, disconnected_inputs="ignore"),
    }
    graph = eval(repair.formula, {**names, "x": x, "y": y})
    return list(inputs), tensor.as_tensor(graph)


def repairs_of(library: str) -> list[Repair]:
    """Return the repairs that a library makes."""
    return [repair for repair in REPAIRS if repair.only in ("", library)]


def check(repair: Repair, library: ModuleType, tensor: ModuleType, mode: Any) -> None:
    """Assert that the library repairs a graph, and jaxprgen as well unless it is refused.

    Parameters
    ----------
    mode
        The library's class ``Mode``.
    """
    inputs, graph = build(repair, library, tensor)
    point = np.array(repair.x), np.array(repair.y or np.ones(len(repair.x)))
    with np.errstate(all="ignore"):
        for rewrites, is_right in ((None, False), ("fast_run", True)):
            f = library.function(inputs, graph, mode("py", rewrites), on_unused_input="ignore")
            assert is_close(f(*point), repair.right) == is_right, (rewrites, f(*point))
    if repair.refused:
        return
    ours = jaxprgen.compile(inputs, graph)

    def value(x: Any, y: Any) -> Any:
        found = ours(x, y)
        return found.sum(), found

    slope, found = jax.jit(jax.grad(value, has_aux=True))(*point)
    assert is_close(found, repair.right), found
    assert repair.slope is None or is_close(slope, repair.slope), slope


def is_close(found: Any, right: Sequence[float]) -> bool:
    """Return whether numbers agree to ten digits, below 1e-300 without any."""
    return np.allclose(found, right, rtol=1e-10, atol=1e-300, equal_nan=True)
