"""Scalar Ops that PyTensor alone has, and loops of scalars that differ by element."""

import jax
import numpy as np
import pytest
import scipy.special

import jaxprgen

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")
PYTHON = pytensor.compile.mode.Mode("py", None)


def assert_agrees(inputs, output, *values, rtol=1e-10):
    expected = pytensor.function(inputs, output, mode=PYTHON)(*values)
    np.testing.assert_allclose(jaxprgen.compile(inputs, output)(*values), expected, rtol=rtol)


K = np.array([0.5, 2.0, 30.0, 2.0, 0.1])
X = np.array([0.3, 5.0, 20.0, 0.0, 1e-3])
OPS = {
    "gammaincinv": lambda k, x: pt.gammaincinv(k, x / 50),
    "gammainccinv": lambda k, x: pt.gammainccinv(k, x / 50),
    "betaincinv": lambda k, x: pt.betaincinv(k, 1.5, x / 50),
    "polygamma": lambda k, x: pt.polygamma(pt.floor(k).astype("int64"), x),
    "ndtri_exp": lambda k, x: pt.math.ndtri_exp(-x - k),
    "ive": lambda k, x: pt.ive(k, x),
    "kve": lambda k, x: pt.kve(k, x),
    "gradient of gammainc": lambda k, x: pytensor.grad(pt.gammainc(k, x).sum(), k),
    "gradient of gammaincc": lambda k, x: pytensor.grad(pt.gammaincc(k, x).sum(), k),
    "gradient of hyp2f1": lambda k, x: pytensor.grad(pt.hyp2f1(k, 1.5, 2.5, x / 50).sum(), k),
}
NEW_OR_MENDED_IN_3_3 = {"ndtri_exp", "gradient of gammaincc"}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", OPS)
def test_values_and_gradients(case):
    if case in NEW_OR_MENDED_IN_3_3 and pytensor.__version__ < "3.3":
        pytest.skip(
            f"PyTensor {pytensor.__version__} lacks this, or its formula is wrong at (30, 20)."
        )
    k, x = pt.dvectors("k", "x")
    assert_agrees([k, x], OPS[case](k, x), K, X)


@pytest.mark.skipif(not hasattr(pt, "kve"), reason="This PyTensor has no such Op.")
def test_the_modified_bessel_function_of_the_second_kind():
    """Orders and arguments of every size, as SciPy; JAX's gradient is that of PyTensor."""
    v, x = pt.dvectors("v", "x")
    f = jaxprgen.compile([v, x], pt.kve(v, x))
    orders = np.array([0, 1e-9, 0.3, 0.5, 1, 2.5, -2.5, 17, 300, 1e5])
    points = np.array([1e-30, 1e-12, 1e-3, 0.1, 1, 7, 40, 1e3, 1e8])
    grid = [g.ravel() for g in np.meshgrid(orders, points)]
    np.testing.assert_allclose(f(*grid), scipy.special.kve(*grid), rtol=1e-11)
    special = np.array([0.0, -1.0, np.inf, np.nan])
    np.testing.assert_array_equal(f(np.ones(4), special), scipy.special.kve(1, special))
    slopes = jax.grad(lambda x: f(K, x).sum())(X + 1)
    wanted = pytensor.function([v, x], pytensor.grad(pt.kve(v, x).sum(), x), mode=PYTHON)
    np.testing.assert_allclose(slopes, wanted(K, X + 1), rtol=1e-9)


@pytest.mark.parametrize("ends", [False, True])
def test_every_element_of_a_scalar_loop_takes_its_own_steps(ends):
    from pytensor.scalar import add, float64, ge, int64, mul
    from pytensor.scalar.loop import ScalarLoop
    from pytensor.tensor.elemwise import Elemwise

    x, k = float64("x"), float64("k")
    after = add(mul(x, k), 1.0)
    until = ge(after, 20.0) if ends else None
    op = ScalarLoop(init=[x], constant=[k], update=[after], until=until)
    assert int64.dtype == "int64"
    n, y, c = pt.lvector("n"), pt.dvector("y"), pt.dvector("c")
    found = Elemwise(op)(n, y, c)
    outputs = found if ends else [found]
    values = np.array([1, 3, 10]), np.array([0.5, 1.0, 2.0]), np.array([2.0, 1.5, 1.1])
    for output in outputs:
        assert_agrees([n, y, c], output, *values)
    f = jaxprgen.function([n, y, c], outputs[0])
    primals = [np.asarray(v) for v in values[1:]]
    _, slope = jax.jvp(lambda *a: f(values[0], *a), primals, [np.ones(3), np.zeros(3)])
    if not ends:
        np.testing.assert_allclose(slope, values[2] ** values[0])
    with pytest.raises(jaxprgen.errors.ReverseModeError, match="ScalarLoop"):
        jax.grad(lambda y: f(values[0], y, values[2]).sum())(values[1])


@pytest.mark.parametrize("taken", [0, 1])
def test_a_branch_of_inner_graphs_is_the_one_that_holds(taken):
    try:
        from pytensor.conditional.op import ifelse
    except ImportError:  # Older versions have it elsewhere.
        from pytensor.ifelse import ifelse

    c, x = pt.bscalar("c"), pt.dvector("x")
    y = ifelse(c, pt.exp(x).sum(), x.prod() + 1)
    expected = np.exp(X).sum() if taken else X.prod() + 1
    rewritten = pytensor.function([c, x], y, mode="JAXPR")
    np.testing.assert_allclose(rewritten(taken, X), expected)
    np.testing.assert_allclose(jaxprgen.compile([c, x], y)(taken, X), expected)


@pytest.mark.parametrize("taken", [0, 1])
def test_a_lazy_branch_computes_its_graph(taken):
    conditional = pytest.importorskip("pytensor.conditional.op")
    from pytensor.compile.builders import OpFromGraph

    x, c = pt.dvector("x"), pt.bscalar("c")
    inner = [x.type(), x.type()]
    branches = OpFromGraph([inner[0]], [pt.exp(inner[0])]), OpFromGraph([inner[1]], [inner[1] * 2])
    y = conditional.LazyIfElse(*branches, [x.type])(c, x)
    expected = np.exp(X) if taken else X * 2
    np.testing.assert_allclose(jaxprgen.compile([c, x], y)(taken, X), expected)
