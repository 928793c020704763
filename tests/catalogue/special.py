"""Special functions."""

import aesara.scalar as aes
import aesara.scalar.math as aem
import aesara.tensor as at
import numpy as np
from aesara.scalar import basic_sympy
from aesara.tensor.elemwise import Elemwise
from aesara.tensor.nnet.basic import ScalarSoftsign, softsign
from aesara.tensor.nnet.sigm import UltraFastScalarSigmoid, ultra_fast_sigmoid

from catalogue.example import among, example, symmetric, unit, vector

orders, points = among(0.5, 1, 2.5, 7, 3), among(0.25, 3, 4.5, 7, 1)
twos, halves = among(2, 1, 3, 2, 4), among(0.5, 2, 1.5, 3, 1)
OF_ONE = {
    aem.Erf: at.erf,
    aem.Erfc: at.erfc,
    aem.Erfcx: at.erfcx,
    aem.I0: at.i0,
    aem.I1: at.i1,
    aem.J0: at.j0,
    aem.J1: at.j1,
    aem.Sigmoid: at.sigmoid,
    aem.Softplus: at.softplus,
    ScalarSoftsign: softsign,
    UltraFastScalarSigmoid: ultra_fast_sigmoid,
}
OF_POSITIVES = {
    aem.Gamma: at.gamma,
    aem.GammaLn: at.gammaln,
    aem.Psi: at.psi,
    aem.TriGamma: at.tri_gamma,
}
OF_AN_ORDER = {
    aem.Chi2SF: lambda k, x: at.chi2sf(x, k),
    aem.GammaInc: at.gammainc,
    aem.GammaIncC: at.gammaincc,
    aem.GammaU: at.gammau,
    aem.GammaL: at.gammal,
    aem.Iv: at.iv,
    aem.Jv: at.jv,
    aem.Owens_t: at.owens_t,
}


def symbolic(x):
    """An Op of an expression of SymPy, which need not be installed for that."""
    op = basic_sympy.SymPyCCode([None], None, name="symbolic")
    op.nin, op.output_types_preference = 1, aes.basic.same_out
    return Elemwise(op)(x)


EXAMPLES = [
    *(example(op, build, vector) for op, build in OF_ONE.items()),
    *(example(op, build, points) for op, build in OF_POSITIVES.items()),
    *(example(op, build, orders, points) for op, build in OF_AN_ORDER.items()),
    example(aem.BetaInc, at.betainc, orders, twos, unit),
    example(
        aem.BetaIncDer, lambda *xs: Elemwise(aem.betainc_der)(*xs, np.True_), orders, twos, unit
    ),
    example(aem.Erfcinv, at.erfcinv, unit),
    example(aem.Erfinv, at.erfinv, symmetric),
    # Aesara's series of derivatives end early: a sum of them is wrong by 2 in a thousand.
    example(aem.GammaIncDer, Elemwise(aem.gammainc_der), orders, points, rtol=1e-4),
    example(aem.GammaIncCDer, Elemwise(aem.gammaincc_der), orders, points, rtol=5e-3),
    # Aesara's series do not converge outside of the unit circle.
    example(aem.Hyp2F1, at.hyp2f1, orders, twos, halves, unit, rtol=1e-10),
    example(
        aem.Hyp2F1Der,
        lambda *xs: Elemwise(aem.hyp2f1_der)(*xs, 0),
        orders,
        twos,
        halves,
        unit,
        rtol=1e-10,
    ),
    example(aem.Log1mexp, at.log1mexp, among(-0.1, -1, -5)),
    example(basic_sympy.SymPyCCode, symbolic, vector),
]
