"""Functions of `scipy.special`. Integers are computed as float64, which is what SciPy does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxprgen.emit import elementwise as ew
from jaxprgen.emit import softmax as soft
from jaxprgen.emit import transcendental
from jaxprgen.emit.decompositions import inexact
from jaxprgen.emit.shape import expand_dims
from jaxprgen.emit.values import Emit, Value, ValueLike
from jaxprgen.numpy.reductions import Axis, axes_of
from jaxprgen.numpy.ufuncs import promoted, value_of
from jaxprgen.special import (
    bessel,
    error_functions,
    gamma_functions,
    incomplete_beta,
    incomplete_gamma,
    stable,
)

__all__ = [
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfinv",
    "expit",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i1",
    "iv",
    "j0",
    "j1",
    "jv",
    "log_softmax",
    "logit",
    "logsumexp",
    "psi",
    "softmax",
    "xlog1py",
    "xlogy",
]


def _function(name: str, emit: Emit) -> Emit:
    def function(*operands: ValueLike) -> Value:
        return emit(*inexact(*promoted(*operands)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return `scipy.special.{name}`."
    return function


def _betaln(a: Value, b: Value) -> Value:
    return gamma_functions.gammaln(a) + gamma_functions.gammaln(b) - gamma_functions.gammaln(a + b)


betainc = _function("betainc", incomplete_beta.betainc)
betaln = _function("betaln", _betaln)
digamma = psi = _function("digamma", gamma_functions.digamma)
entr = _function("entr", lambda x: -transcendental.xlogy(x, x))
erf = _function("erf", transcendental.erf)
erfc = _function("erfc", transcendental.erfc)
erfcinv = _function("erfcinv", error_functions.erfcinv)
erfcx = _function("erfcx", error_functions.erfcx)
erfinv = _function("erfinv", error_functions.erfinv)
expit = _function("expit", transcendental.expit)
gamma = _function("gamma", gamma_functions.gamma)
gammainc = _function("gammainc", incomplete_gamma.gammainc)
gammaincc = _function("gammaincc", incomplete_gamma.gammaincc)
gammaln = _function("gammaln", gamma_functions.gammaln)
i0 = _function("i0", transcendental.i0)
i1 = _function("i1", transcendental.i1)
iv = _function("iv", bessel.iv)
j0 = _function("j0", bessel.j0)
j1 = _function("j1", bessel.j1)
jv = _function("jv", bessel.jv)
logit = _function("logit", lambda p: ew.log(p) - ew.log1p(-p))
xlogy = _function("xlogy", transcendental.xlogy)
xlog1py = _function("xlog1py", lambda x, y: ew.where(ew.equal(x, 0), 0, x * ew.log1p(y)))


def _over_axes(name: str, emit: Callable[[Value, Sequence[int]], Value], reduces: bool) -> Emit:
    def function(x: ValueLike, axis: Axis = None, keepdims: bool = False) -> Value:
        (x,) = inexact(value_of(x))
        axes = axes_of(axis, x.ndim)
        found = emit(x, axes)
        return expand_dims(found, axes) if reduces and keepdims else found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return `scipy.special.{name}` over some axes, by default over all."
    return function


logsumexp = _over_axes("logsumexp", stable.logsumexp, True)
softmax = _over_axes("softmax", soft.softmax, False)
log_softmax = _over_axes("log_softmax", soft.log_softmax, False)
