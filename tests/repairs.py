"""The repairs that rewrites of Aesara and PyTensor make, and their other rewrites by kind.

A repair is a graph that is NaN, infinite or inaccurate as written, and right after the library's
rewrites. The table needs neither library; `tests/aesara/test_repairs.py` and
`tests/pytensor/test_pytensor_repairs.py` check it, and `docs/repairs.py` makes a page of it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from math import inf, nan
from types import ModuleType
from typing import Any, NamedTuple

import jax
import numpy as np

import jaxprgen

CANCELLED = "`x / x` is NaN where `x` is 0, infinite or NaN; cancelling it hides that"
CANCELS = "`log(c) - log(x)` cancels where `x` is near `c`"
COMPENSATED = "compensated sums and rounding by a large number are written like this"
ENDLESS = "`x - x` is NaN where `x` is infinite or NaN; 0 would hide that"
INFINITE = "IEEE 754 defines this power of -inf as inf"
NEGATIVE = "powers of negative numbers, which are NaN, would become numbers"
RARE = "the sign of a number that underflows is that of zero, as in NumPy"
REORDERED = "another order of factors overflows for other numbers"
ZEROS = "zeros in a matrix are numbers like others, and 0 times infinity is NaN"


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


REPAIRS = [
    Repair("local_log1p", "log(1 + x)", [1e-20], right=[1e-20], slope=[1.0]),
    Repair("local_log1p", "log(1 - x)", [1e-20], right=[-1e-20], slope=[-1.0]),
    Repair("local_expm1", "exp(x) - 1", [1e-20], right=[1e-20], slope=[1.0]),
    Repair(
        "local_one_minus_erf",
        "1 - erf(x)",
        [10.0],
        right=[2.088487583762545e-45],
        slope=[-4.197656231354417e-44],
    ),
    Repair(
        "local_one_plus_erf",
        "1 + erf(x)",
        [-10.0],
        right=[2.088487583762545e-45],
        slope=[4.197656231354417e-44],
    ),
    Repair(
        "local_erf_minus_one",
        "erf(x) - 1",
        [10.0],
        right=[-2.088487583762545e-45],
        slope=[4.197656231354417e-44],
    ),
    Repair(
        "local_erf_neg_minus_one",
        "-1 + erf(-x)",
        [-10.0],
        right=[-2.088487583762545e-45],
        slope=[-4.197656231354417e-44],
    ),
    Repair(
        "local_one_minus_erfc",
        "1 - erfc(x)",
        [1e-20],
        right=[1.1283791670955125e-20],
        slope=[1.1283791670955126],
    ),
    Repair(
        "local_one_minus_erfc",
        "1 + -1 * erfc(x)",
        [1e-20],
        right=[1.1283791670955125e-20],
        slope=[1.1283791670955126],
    ),
    Repair(
        "local_exp_log",
        "log(exp(x))",
        [800.0, -800.0, 1e-20],
        right=[800.0, -800.0, 1e-20],
        slope=[1.0, 1.0, 1.0],
    ),
    Repair("local_exp_log", "D(log(exp(x)))", [800.0, -800.0], right=[1.0, 1.0]),
    Repair(
        "local_exp_log", "log1p(expm1(x))", [800.0, -40.0], right=[800.0, -40.0], slope=[1.0, 1.0]
    ),
    Repair(
        "local_func_inv useless_Arctanh_of_Tanh",
        "arctanh(tanh(x))",
        [20.0, -40.0],
        right=[20.0, -40.0],
        slope=[1.0, 1.0],
    ),
    Repair(
        "local_func_inv useless_Arctanh_of_Tanh",
        "D(arctanh(tanh(x)))",
        [20.0, -40.0],
        right=[1.0, 1.0],
    ),
    Repair(
        "local_func_inv useless_Arcsinh_of_Sinh",
        "arcsinh(sinh(x))",
        [800.0, -800.0],
        right=[800.0, -800.0],
        slope=[1.0, 1.0],
    ),
    Repair(
        "local_func_inv useless_Arccosh_of_Cosh",
        "arccosh(cosh(x))",
        [800.0, 1e-20],
        right=[800.0, 1e-20],
        slope=[1.0, 1.0],
    ),
    Repair(
        "local_func_inv useless_Reciprocal_of_Reciprocal",
        "D(1 / (1 / x))",
        [1e-200, 1e200],
        right=[1.0, 1.0],
        refused=CANCELLED,
    ),
    Repair(
        "local_1msigmoid",
        "1 - sigmoid(x)",
        [40.0, 800.0],
        right=[4.248354255291589e-18, 0.0],
        slope=[-4.248354255291589e-18, -0.0],
    ),
    Repair("logsigm_to_softplus", "log(sigmoid(x))", [-800.0], right=[-800.0], slope=[1.0]),
    Repair("logsigm_to_softplus", "D(log(sigmoid(x)))", [-800.0], right=[1.0]),
    Repair(
        "log1msigm_to_softplus",
        "log(1 - sigmoid(x))",
        [40.0, 800.0],
        right=[-40.0, -800.0],
        slope=[-1.0, -1.0],
    ),
    Repair("log1msigm_to_softplus", "D(log(1 - sigmoid(x)))", [800.0], right=[-1.0]),
    Repair(
        "log1msigm_to_softplus logsigm_to_softplus",
        "D(y * log(sigmoid(x)) + (1 - y) * log(1 - sigmoid(x)))",
        [-800.0, 800.0],
        y=[0.3, 0.3],
        right=[0.3, -0.7000000000000001],
    ),
    Repair(
        "log1p_neg_sigmoid",
        "log1p(-sigmoid(x))",
        [40.0, 800.0],
        right=[-40.0, -800.0],
        slope=[-1.0, -1.0],
    ),
    Repair(
        "log1pexp_to_softplus local_log1p_plusminus_exp",
        "log1p(exp(x))",
        [800.0],
        right=[800.0],
        slope=[1.0],
    ),
    Repair(
        "log1pexp_to_softplus local_log1p_plusminus_exp",
        "log(1 + exp(x))",
        [800.0, -40.0],
        right=[800.0, 4.248354255291589e-18],
        slope=[1.0, 4.248354255291589e-18],
    ),
    Repair(
        "log1pexp_to_softplus local_log1p_plusminus_exp", "D(log(1 + exp(x)))", [800.0], right=[1.0]
    ),
    Repair(
        "log1pexp_to_softplus local_log1p_plusminus_exp",
        "D(x - log(1 + exp(x)))",
        [800.0],
        right=[0.0],
    ),
    Repair(
        "log1pmexp_to_log1mexp local_log1p_plusminus_exp",
        "log(1 - exp(x))",
        [-1e-20, -40.0],
        right=[-46.051701859880914, -4.248354255291589e-18],
        slope=[-1e20, -4.248354255291589e-18],
    ),
    Repair(
        "log1pmexp_to_log1mexp local_log1p_plusminus_exp",
        "log1p(-exp(x))",
        [-1e-20, -40.0],
        right=[-46.051701859880914, -4.248354255291589e-18],
        slope=[-1e20, -4.248354255291589e-18],
        only="pytensor",
    ),
    Repair(
        "logmexpm1_to_log1mexp",
        "log(-expm1(x))",
        [-40.0],
        right=[-4.248354255291589e-18],
        slope=[-4.248354255291589e-18],
        only="pytensor",
    ),
    Repair("local_reciprocal_1_plus_exp", "D(1 / (1 + exp(x)))", [800.0], right=[-0.0]),
    Repair("local_reciprocal_1_plus_exp", "D(1 / (1 + exp(-x)))", [-800.0], right=[0.0]),
    Repair(
        "local_reciprocal_1_plus_exp",
        "D(log(1 / (1 + exp(-x))))",
        [-700.0, -800.0],
        right=[1.0, 1.0],
    ),
    Repair(
        "local_reciprocal_1_plus_exp",
        "log(1 - 1 / (1 + exp(-x)))",
        [800.0],
        right=[-800.0],
        slope=[-1.0],
    ),
    Repair("local_reciprocal_1_plus_exp", "D(log(1 - 1 / (1 + exp(-x))))", [800.0], right=[-1.0]),
    Repair("local_exp_over_1_plus_exp", "exp(x) / (1 + exp(x))", [800.0], right=[1.0], slope=[0.0]),
    Repair("local_exp_over_1_plus_exp", "D(exp(x) / (1 + exp(x)))", [800.0], right=[0.0]),
    Repair(
        "local_exp_over_1_plus_exp",
        "x * exp(x) / (1 + exp(x))",
        [800.0],
        right=[800.0],
        slope=[1.0],
    ),
    Repair(
        "local_exp_over_1_plus_exp",
        "log(exp(x) / (1 + exp(x)))",
        [800.0, -800.0],
        right=[-0.0, -800.0],
        slope=[0.0, 1.0],
    ),
    Repair(
        "local_exp_over_1_plus_exp",
        "D(log(exp(x) / (1 + exp(x))))",
        [800.0, -800.0],
        right=[0.0, 1.0],
    ),
    Repair("local_sigm_times_exp", "exp(x) * sigmoid(-x)", [800.0], right=[1.0], slope=[0.0]),
    Repair(
        "local_sigm_times_exp",
        "-exp(x) * sigmoid(-x) * y",
        [800.0],
        y=[2.0],
        right=[-2.0],
        slope=[-0.0],
    ),
    Repair(
        "local_logit_sigmoid",
        "log(sigmoid(x) / (1 - sigmoid(x)))",
        [40.0, -800.0],
        right=[40.0, -800.0],
        slope=[1.0, 1.0],
    ),
    Repair(
        "local_logit_sigmoid",
        "D(log(sigmoid(x) / (1 - sigmoid(x))))",
        [40.0, -800.0],
        right=[1.0, 1.0],
    ),
    Repair(
        "local_odds_sigmoid",
        "sigmoid(x) / (1 - sigmoid(x))",
        [40.0, 700.0],
        right=[2.3538526683702e17, 1.0142320547350045e304],
        slope=[2.3538526683702e17, 1.0142320547350045e304],
        only="pytensor",
    ),
    Repair(
        "local_inv_odds_sigmoid",
        "(1 - sigmoid(x)) / sigmoid(x)",
        [40.0, -700.0],
        right=[4.248354255291589e-18, 1.0142320547350045e304],
        slope=[-4.248354255291589e-18, -1.0142320547350045e304],
        only="pytensor",
    ),
    Repair(
        "local_log_add_exp",
        "log(exp(x) + exp(y))",
        [800.0, -800.0],
        y=[799.0, -801.0],
        right=[800.3132616875182, -799.6867383124818],
        slope=[0.7310585786300049, 0.7310585786300049],
    ),
    Repair(
        "local_log_add_exp",
        "log(exp(x) + exp(y) + exp(x + y))",
        [500.0, -800.0],
        y=[499.0, -801.0],
        right=[999.0, -799.6867383124818],
        slope=[1.0, 0.7310585786300049],
    ),
    Repair(
        "log_diff_exp logdiffexp_to_log1mexpdiff",
        "log(exp(x) - exp(y))",
        [800.0, -800.0],
        y=[799.0, -801.0],
        right=[799.5413248546129, -800.4586751453871],
        slope=[1.5819767068693265, 1.5819767068693265],
    ),
    Repair(
        "local_log_sum_exp",
        "log(sum(exp(x)))",
        [800.0, 799.0],
        right=[800.3132616875182],
        slope=[0.7310585786300049, 0.2689414213699951],
    ),
    Repair(
        "local_log_sum_exp",
        "log(sum(exp(-x)))",
        [800.0, 801.0],
        right=[-799.6867383124818],
        slope=[-0.7310585786300049, -0.2689414213699951],
    ),
    Repair(
        "local_log_sum_exp",
        "D(log(sum(exp(x))))",
        [800.0, 799.0],
        right=[0.7310585786300049, 0.2689414213699951],
    ),
    Repair(
        "local_log_sum_exp local_log_softmax_from_logsumexp",
        "x - log(sum(exp(x)))",
        [800.0, -800.0],
        right=[-0.0, -1600.0],
        slope=[-1.0, 1.0],
    ),
    Repair(
        "local_softmax_stabilize local_softmax_with_bias",
        "exp(x) / sum(exp(x))",
        [800.0, 799.0],
        right=[0.7310585786300049, 0.2689414213699951],
        slope=[0.0, 0.0],
    ),
    Repair(
        "local_softmax_stabilize local_mul_canonizer",
        "D(x * exp(x) / sum(exp(x)))",
        [800.0, 799.0],
        right=[0.9276705118714867, 0.07232948812851327],
        only="aesara",
    ),
    Repair(
        "local_logsoftmax",
        "log(softmax(x))",
        [800.0, -800.0],
        right=[-0.0, -1600.0],
        slope=[-1.0, 1.0],
    ),
    Repair("local_logsoftmax", "D(log(softmax(x))[1])", [800.0, -800.0], right=[-1.0, 1.0]),
    Repair(
        "local_logsoftmax",
        "log(softmax(x)[0])",
        [-800.0, 800.0],
        right=[-1600.0],
        slope=[1.0, -1.0],
        only="pytensor",
    ),
    Repair(
        "local_logsoftmax",
        "log(softmax(x)[::-1])",
        [-800.0, 800.0],
        right=[-0.0, -1600.0],
        slope=[1.0, -1.0],
        only="pytensor",
    ),
    Repair(
        "local_logsoftmax_grad local_logsoftmax",
        "D(sum(y * log(softmax(x))))",
        [800.0, -800.0],
        y=[2.0, 3.0],
        right=[-3.0, 3.0],
    ),
    Repair(
        "local_log_erfc",
        "log(erfc(x))",
        [30.0],
        right=[-903.9741171106439],
        slope=[-60.03329639875623],
    ),
    Repair(
        "local_log_erfc",
        "log(1 - erf(x))",
        [30.0, 10.0],
        right=[-903.9741171106439, -102.87988902484489],
        slope=[-60.03329639875623, -20.099024116734604],
    ),
    Repair(
        "local_log_erfc",
        "log(erfc(2 * x))",
        [30.0],
        right=[-3604.6668483458434],
        slope=[-240.03332408049752],
    ),
    Repair("local_grad_log_erfc_neg", "D(log(erfc(x)))", [30.0], right=[-60.03329639875623]),
    Repair("local_grad_log_erfc_neg", "D(log(1 - erf(x)))", [30.0], right=[-60.03329639875623]),
    Repair("local_grad_log_erfc_neg", "D(log(erfc(2 * x)))", [30.0], right=[-240.03332408049752]),
    Repair(
        "local_grad_log_erfc_neg",
        "D(y * log(erfc(x)))",
        [30.0],
        y=[3.0],
        right=[-180.0998891962687],
    ),
    Repair(
        "local_grad_log_erfc_neg",
        "exp(-x**2) / erfc(x)",
        [30.0],
        right=[53.203123692263866],
        slope=[1.7714724215345605],
    ),
    Repair(
        "local_grad_log_erfc_neg",
        "y * exp(-(x * x)) / erfc(x)",
        [30.0],
        y=[3.0],
        right=[159.60937107679158],
        slope=[5.314417264603682],
    ),
    Repair("local_mul_switch_sink", "D(switch(gt(x, 2), sqrt(x), 1))", [0.0], right=[0.0]),
    Repair("local_mul_switch_sink", "D(switch(gt(x, 2), log(x), 0))", [0.0], right=[0.0]),
    Repair("local_mul_switch_sink", "D(switch(gt(x, 2), x**1.5, 1))", [-1.0], right=[0.0]),
    Repair("local_mul_switch_sink", "D(switch(lt(x, 2), exp(x), x))", [800.0], right=[1.0]),
    Repair("local_mul_switch_sink", "D(switch(lt(x, 2), exp(x) * x, x))", [800.0], right=[1.0]),
    Repair(
        "local_mul_switch_sink", "D(switch(gt(x, 2), log(log(x)), 1))", [0.0, 1.0], right=[0.0, 0.0]
    ),
    Repair(
        "local_mul_switch_sink",
        "switch(gt(x, 2), y, 0) * exp(-x)",
        [-800.0],
        y=[3.0],
        right=[0.0],
        slope=[0.0],
    ),
    Repair("local_div_switch_sink", "D(switch(gt(x, 2), y / x, 0))", [0.0], y=[3.0], right=[0.0]),
    Repair(
        "local_div_switch_sink",
        "switch(gt(x, 2), y, 0) / (x - 1)",
        [1.0],
        y=[3.0],
        right=[0.0],
        slope=[0.0],
    ),
    Repair(
        "local_merge_switch_same_cond",
        "D(switch(gt(x, 2), log(x), 0) + switch(gt(x, 2), sqrt(x), 0))",
        [0.0],
        right=[0.0],
    ),
    Repair("local_useless_switch", "D(switch(1, x, log(x)))", [0.0], right=[1.0]),
    Repair("local_mul_zero", "0 * exp(x)", [800.0], right=[0.0], slope=[0.0]),
    Repair("local_zero_div", "0 / (x - y)", [1.0], y=[1.0], right=[0.0], slope=[0.0]),
    Repair("local_0_dot_x", "dot(zeros, exp(x))", [800.0, 1.0], right=[0.0], refused=ZEROS),
    Repair("local_pow_canonicalize", "D(x**0)", [0.0], right=[0.0]),
    Repair("local_mul_canonizer", "x / x", [0.0], right=[1.0], refused=CANCELLED),
    Repair(
        "local_mul_canonizer", "x * y / y", [1e200], y=[1e200], right=[1e200], refused=CANCELLED
    ),
    Repair(
        "local_mul_canonizer", "x / y * y", [1e-200], y=[1e200], right=[1e-200], refused=CANCELLED
    ),
    Repair(
        "local_mul_canonizer",
        "exp(x) / exp(x)",
        [800.0, -800.0],
        right=[1.0, 1.0],
        slope=[0.0, 0.0],
    ),
    Repair(
        "local_mul_canonizer",
        "exp(x) * y / exp(x)",
        [800.0, -800.0],
        y=[2.0, 2.0],
        right=[2.0, 2.0],
        slope=[0.0, 0.0],
    ),
    Repair(
        "local_mul_canonizer",
        "1e200 * (x * 1e-200) * 1e200",
        [1e-200],
        right=[0.9999999999999999],
        refused=REORDERED,
    ),
    Repair(
        "local_mul_canonizer local_log_div",
        "D(log(1 / x))",
        [1e-200, 1e200],
        right=[-1e200, -1e-200],
    ),
    Repair("local_mul_canonizer", "D(log(x / 1e-200))", [1e200], right=[1e-200]),
    Repair("local_mul_canonizer", "D(log(1e200 / x))", [1e-200], right=[-1e200]),
    Repair(
        "local_mul_canonizer",
        "D(log(prod(x)))",
        [1e200, 1e200],
        right=[1e-200, 1e-200],
        only="aesara",
        refused=CANCELLED,
    ),
    Repair(
        "local_greedy_distributor",
        "(x / y + 1) * y",
        [2.0],
        y=[0.0],
        right=[2.0],
        refused=CANCELLED,
    ),
    Repair("local_add_canonizer", "x + y - y", [1.0], y=[1e20], right=[1.0], refused=COMPENSATED),
    Repair("local_add_canonizer", "(x + 1) - 1", [1e-20], right=[1e-20], refused=COMPENSATED),
    Repair(
        "local_sum_prod_mul_by_scalar local_sum_prod_of_mul_or_div",
        "sum(1e300 * x)",
        [10000000000.0, -10000000000.0],
        right=[0.0],
        refused=REORDERED,
    ),
    Repair("local_pow_specialize", "x**0.5", [-inf], right=[nan], refused=INFINITE),
    Repair(
        "local_mul_pow_to_pow_add",
        "y**x * y**(-x)",
        [2000.0],
        y=[2.0],
        right=[1.0],
        only="pytensor",
        refused=NEGATIVE,
    ),
    Repair(
        "local_mul_exp_to_exp_add",
        "exp(x) * exp(y)",
        [800.0],
        y=[-800.0],
        right=[1.0],
        slope=[1.0],
        only="pytensor",
    ),
    Repair(
        "local_mul_exp_to_exp_add",
        "exp(x) / exp(y)",
        [800.0],
        y=[799.0],
        right=[2.718281828459045],
        slope=[2.718281828459045],
        only="pytensor",
    ),
    Repair(
        "local_mul_exp_to_exp_add", "D(exp(x) * exp(-x))", [800.0], right=[-0.0], only="pytensor"
    ),
    Repair(
        "local_mul_exp_to_exp_add",
        "D(exp(x) / exp(y))",
        [800.0],
        y=[799.0],
        right=[2.718281828459045],
        only="pytensor",
    ),
    Repair(
        "local_sqrt_sqr",
        "sqrt(x**2)",
        [1e200, 1e-200],
        right=[1e200, 1e-200],
        slope=[1.0, 1.0],
        only="pytensor",
    ),
    Repair("local_sqrt_sqr", "D(sqrt(x**2))", [1e200, 1e-200], right=[1.0, 1.0], only="pytensor"),
    Repair(
        "local_log_sqrt_sqr",
        "log(x**2)",
        [1e200, 1e-200],
        right=[921.0340371976183, -921.0340371976183],
        slope=[2e-200, 2e200],
        only="pytensor",
    ),
    Repair(
        "local_log_sqrt_sqr",
        "log(abs(x**2))",
        [1e200, 1e-200],
        right=[921.0340371976183, -921.0340371976183],
        slope=[2e-200, 2e200],
        only="pytensor",
    ),
    Repair(
        "local_log_div",
        "log(1e200 / x)",
        [1e-200],
        right=[921.0340371976183],
        only="pytensor",
        refused=CANCELS,
    ),
    Repair(
        "local_log_prod_to_sum_log",
        "log(prod(exp(x)))",
        [800.0, 800.0],
        right=[1600.0],
        slope=[1.0, 1.0],
        only="pytensor",
    ),
    Repair(
        "local_log_prod_to_sum_log",
        "log(abs(prod(x)))",
        [1e200, 1e200],
        right=[921.0340371976183],
        slope=[1e-200, 1e-200],
        only="pytensor",
    ),
    Repair(
        "local_log_prod_to_sum_log",
        "log(prod(x)**2)",
        [1e200, 1e200],
        right=[1842.0680743952366],
        slope=[2e-200, 2e-200],
        only="pytensor",
    ),
    Repair(
        "local_sign_prod",
        "sign(prod(x))",
        [1e-200, 1e-200],
        right=[1.0],
        only="pytensor",
        refused=RARE,
    ),
    Repair("local_sign_prod", "sign(x**2)", [1e-200], right=[1.0], only="pytensor", refused=RARE),
    Repair(
        "local_sign_div", "sign(x / 1e200)", [1e-200], right=[1.0], only="pytensor", refused=RARE
    ),
    Repair("local_log_iv", "log(iv(1, x))", [800.0], right=[795.7382865596717], only="pytensor"),
    Repair("local_log_kv", "log(kv(1, x))", [800.0], right=[-803.1160460538381], only="pytensor"),
    Repair(
        "local_elemwise_sub_zeros local_add_canonizer",
        "exp(x) - exp(x)",
        [800.0],
        right=[0.0],
        refused=ENDLESS,
    ),
    Repair(
        "local_logsoftmax",
        "D(sum(log(softmax(rows))[labels, labels]))",
        [-800.0, 800.0, -800.0, 800.0],
        right=[1.0, -1.0, 0.0, 0.0],
        only="pytensor",
    ),
    Repair(
        "crossentropy_to_crossentropy_with_softmax_with_bias local_softmax_with_bias",
        "nnet.categorical_crossentropy(nnet.softmax(rows), labels)",
        [-800.0, 800.0, -800.0, 800.0],
        right=[1600.0, 0.0],
        slope=[-1.0, 1.0, 0.0, 0.0],
        only="aesara",
    ),
    Repair(
        "local_softmax_grad_to_crossentropy_with_softmax_grad",
        "D(nnet.categorical_crossentropy(nnet.softmax(rows), labels))",
        [-800.0, 800.0, -800.0, 800.0],
        right=[-1.0, 1.0, 0.0, 0.0],
        only="aesara",
    ),
]

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
