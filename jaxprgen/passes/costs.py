"""What a program costs: the time to compile it, and the time of the calls that follow."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from jaxprgen import _jax
from jaxprgen._jax import JaxprEqn, Size, Var
from jaxprgen.ir import primitives as lax
from jaxprgen.ir.inner import holder_of
from jaxprgen.ir.liveness import dependent
from jaxprgen.ir.programs import summed


class Work(NamedTuple):
    """What XLA compiles.

    Attributes
    ----------
    kernels : float
        The kernels; those that are alike count once. See `jaxprgen.passes.kernels`. A product of a
        matrix and a vector counts as half of one.
    equations : int
        The equations.
    """

    kernels: float
    equations: int


class Constants(NamedTuple):
    """The times of one platform, in seconds.

    Attributes
    ----------
    compile_kernel : float
        To compile a kernel.
    compile_equation : float
        To compile an equation, not counting kernels.
    compile_pair : float
        For each pair of equations, because XLA takes more than linear time.
    kernel : float
        To start a kernel from the program, more than from within a loop.
    loop : float
        A loop of steps that XLA would fuse, more than what it makes of them as written.
    step : float
        A step of a loop.
    byte_in : float
        To put a byte of values that were made apart beside others.
    byte_out, row_out : float
        To take a byte, or a value of any size, from among others.
    element : float
        To write and read an element that a fused function would keep in a register.
    together : float
        What work for all steps at once costs in all, before its first element.
    kernel_in_step, slow_in_step : float
        A kernel, or an element of a function such as ``exp``, in a step of a loop, more than beside
        those of other steps.
    product : float
        To multiply two numbers, and add the product to a sum, in a matrix product. A number of
        an elementwise function takes five times as long.
    """

    compile_kernel: float
    compile_equation: float
    compile_pair: float
    kernel: float
    loop: float
    step: float
    byte_in: float
    byte_out: float
    row_out: float
    element: float
    together: float
    kernel_in_step: float
    slow_in_step: float
    product: float


_CPU = Constants(
    compile_kernel=12e-3,
    compile_equation=0.3e-3,
    compile_pair=2e-8,
    kernel=0.1e-6,
    loop=1e-6,
    step=0.02e-6,
    byte_in=0.03e-9,
    byte_out=0.15e-9,
    row_out=0.8e-6,
    element=1.5e-9,
    together=10e-6,
    kernel_in_step=0.1e-6,
    slow_in_step=4e-9,
    product=0.1e-9,
)
"""These are near what ``benchmarks/costs.py`` measures on two cores with JAX 0.10.

Bytes that are needed apart cost more here than there: that figure is from whole programs, those
of ``benchmarks/waits.py``, and so is that of loops.
"""

_GPU = _CPU._replace(
    kernel=5e-6,
    loop=0.0,
    step=20e-6,
    byte_in=2e-12,
    byte_out=2e-12,
    row_out=5e-6,
    element=2e-11,
    together=20e-6,
    kernel_in_step=5e-6,
    slow_in_step=0.0,
    product=1e-13,
)
"""These are estimates, and nobody has measured them with this package.

That kernels take 5 µs to start, and steps of loops tens of µs, is from JAX's issues 2491 and 16611;
a byte takes two accesses to a memory of 1 TB/s. Compiling is taken to be as fast as for CPUs.
"""


@dataclass(frozen=True)
class CostModel:
    """Weigh the forms that a program can take: which one is compiled and called in less time.

    Nothing is measured when a program is compiled, so that one graph gives one program.

    Attributes
    ----------
    calls : int
        How often the program is called. The default is what a sampler makes in seconds. With 0,
        only the time to compile counts.
    platform : str
        The platform that the program is for, such as "cpu" or "gpu". By default, that of JAX's
        default device. All but CPUs count as GPUs.
    """

    calls: int = 10_000
    platform: str = ""

    @property
    def constants(self) -> Constants:
        """The times of the platform."""
        platform = self.platform or _jax.default_platform()
        return _CPU if platform == "cpu" else _GPU

    def compiling(self, work: Work) -> float:
        """Return the time to compile a part of a program.

        Parameters
        ----------
        work : Work
            What the part is compiled to.

        Returns
        -------
        float
            The time in seconds.
        """
        c = self.constants
        n = work.equations
        return c.compile_kernel * work.kernels + (c.compile_equation + c.compile_pair * n) * n

    def computing(self, eqns: Iterable[JaxprEqn]) -> float:
        """Return about how long a call computes equations, in seconds.

        The steps of a loop of unknown length count once.

        Parameters
        ----------
        eqns : iterable of JaxprEqn
            The equations.

        Returns
        -------
        float
        """
        return sum(map(self._computing, eqns))

    def _computing(self, eqn: Any) -> float:
        holder = holder_of(eqn)
        if holder is not None:
            inside = (_jax.open_jaxpr(x.program).eqns for x in holder.find(eqn))
            return _jax.bound(eqn.params.get("length", 1)) * sum(map(self.computing, inside))
        c, size = self.constants, max(map(elements, [*eqn.invars, *eqn.outvars]), default=0)
        if eqn.primitive.name == "dot_general":
            return c.product * _products(eqn)
        if eqn.primitive.name in _FACTORING:
            return c.product * size * _count(eqn.invars[0].aval.shape[-1:])
        return (5 * c.product + c.slow_in_step * is_slow(eqn)) * size

    def is_faster_together(
        self, eqns: Sequence[JaxprEqn], steps: Size, varying: Container[Any]
    ) -> bool:
        """Return whether calls are shorter if equations leave a loop.

        Reductions of many elements always leave it: if the elements are split over devices, each
        step would wait for all of them. Products of values that differ in each step, and routines
        of linear algebra, are computed step by step anyway; slices cost a step next to nothing.

        Parameters
        ----------
        eqns : sequence of JaxprEqn
            The equations.
        steps : Size
            The number of steps. A symbolic one counts as large.
        varying : container of Var
            The variables whose values differ in each step.

        Returns
        -------
        bool
        """
        if any(is_reduction(eqn) and elements(eqn.invars[0]) >= _MANY for eqn in eqns):
            return True
        c = self.constants
        slow = sum(elements(v) for eqn in eqns if is_slow(eqn) for v in eqn.outvars)
        step = c.kernel_in_step * _kernels_together(eqns, varying) + c.slow_in_step * slow
        return step > c.together / _jax.bound(steps)


def _products(eqn: Any) -> int:
    """Return how many numbers a matrix product multiplies; 0 if a size is symbolic."""
    ((axes, _), _) = eqn.params["dimension_numbers"]
    shape = eqn.invars[0].aval.shape
    return _count([*eqn.outvars[0].aval.shape, *(shape[i] for i in axes)])


def _kernels_together(eqns: Iterable[JaxprEqn], varying: Container[Any]) -> int:
    """Return how many equations become kernels that take less time for all steps at once."""
    count = 0
    for eqn in eqns:
        holder = holder_of(eqn)
        if holder is None:
            count += not (_is_apart(eqn, varying) or is_fused(eqn))
            continue
        for inner in holder.find(eqn):
            jaxpr = _jax.open_jaxpr(inner.program)
            operands = [eqn.invars[i] for i in inner.operands]
            pairs = zip(jaxpr.invars, operands, strict=True)
            given = [v for v, x in pairs if type(x) is Var and x in varying]
            count += _kernels_together(jaxpr.eqns, dependent(jaxpr.eqns, given))
    return count


def _is_apart(eqn: JaxprEqn, varying: Container[Any]) -> bool:
    """Return whether an equation takes no less time for all steps at once than in each."""
    if eqn.primitive.name == "dot_general":
        return all(x in varying for x in eqn.invars if type(x) is Var)
    return eqn.primitive.name in _APART or is_reduction(eqn)


def total(works: Iterable[Work]) -> Work:
    """Return the work of several parts that are not alike."""
    kernels, equations = zip(*works, strict=True)
    return Work(sum(kernels), sum(equations))


def work_of(eqns: Sequence[JaxprEqn]) -> Work:
    """Return the work to compile equations with those inside them, none of them alike."""
    return Work(summed(eqns, _own_kernels), int(summed(eqns, lambda eqn: 1)))


def _own_kernels(eqn: Any) -> float:
    holder = holder_of(eqn)
    if holder is not None:
        return 0 if holder.only_runs else 1
    if is_fused(eqn) or eqn.primitive.name in _PRECOMPILED:
        return 0
    if eqn.primitive.name != "dot_general":
        return 1
    # Of products, those of a matrix and a vector are compiled, and small ones of matrices.
    contracted, batched = eqn.params["dimension_numbers"]
    sides = zip(eqn.invars, contracted, batched, strict=True)
    vectors = sum(len(x.aval.shape) == len(own) + len(batch) for x, own, batch in sides)
    if vectors:
        return 0.5 if vectors == 1 else 0
    return float(0 < _products(eqn) < _SMALL)


def kernel_starts(eqns: Iterable[JaxprEqn]) -> float:
    """Return how many kernels a program starts for equations, those inside them included."""
    return summed(eqns, _starts_kernel)


def _starts_kernel(eqn: JaxprEqn) -> bool:
    holder = holder_of(eqn)
    return not (is_fused(eqn) if holder is None else holder.only_runs)


def is_fused(eqn: JaxprEqn) -> bool:
    """Return whether XLA fuses an equation with those that read its result."""
    if eqn.primitive.name == "dot_general":  # An outer product is one of numbers.
        return not eqn.params["dimension_numbers"][0][0]
    return eqn.primitive.name in _FUSED


def is_reduction(eqn: JaxprEqn) -> bool:
    """Return whether an equation reduces along axes: XLA fuses it with what makes its operand."""
    return eqn.primitive.name.startswith("reduce_") and eqn.primitive.name != "reduce_precision"


def is_slow(eqn: JaxprEqn) -> bool:
    """Return whether an elementwise function takes several times as long as a product."""
    return eqn.primitive.name in _SLOW


def elements(x: Any) -> int:
    """Return the number of elements of an atom; 0 of types without a known shape."""
    return _count(getattr(x.aval, "shape", ()))


def _count(sizes: Sequence[Any]) -> int:
    return 0 if any(map(_jax.is_symbolic, sizes)) else prod(map(int, sizes))


_FACTORING = frozenset(
    {"cholesky", "triangular_solve", "lu", "eigh", "eig", "svd", "qr", "householder_product"}
)
_PRECOMPILED = _FACTORING | {"conv_general_dilated", "fft", "optimization_barrier"}
"""XLA calls a library routine for these, or emits nothing."""
_APART = frozenset(
    {*_FACTORING, *("dynamic_slice", "dynamic_update_slice", "gather", "concatenate")}
)
_SMALL = 64
"""Of fewer products of numbers, XLA compiles a matrix product instead of calling a library."""
_MANY = 64
"""From this many elements on, an array may be split over devices."""
_SLOW = frozenset(
    {
        *("exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "pow", "sin", "cos", "tan"),
        *("asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh"),
        *("erf", "erfc", "erf_inv", "lgamma", "digamma", "polygamma", "igamma", "igammac"),
        *("bessel_i0e", "bessel_i1e", "regularized_incomplete_beta", "zeta"),
    }
)
_FUSED = frozenset(
    {
        *lax.ELEMENTWISE,
        *("select_n", "clamp", "add_any", "stop_gradient", "copy", "broadcast_in_dim", "iota"),
        "one_minus_square",
        *("reshape", "squeeze", "slice", "transpose", "rev", "pad"),
    }
)
