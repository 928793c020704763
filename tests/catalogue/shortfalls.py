"""Special functions whose relative error in double precision exceeds 1e-10, and where."""

_ORDERS = [
    "orders above 1e5: the relative error is 1e-15 times the order",
    "without x64, single precision throughout: an error of 1e-3 for orders up to 40",
]
_HYPERGEOMETRIC = [
    "`z` < -1 with `a` and `b` both above 30 and above 2 `c`: errors of 3e-9, at most 1e-7",
    "`c` < -5: errors grow with `a` and `b`: 1e-8 at (9, 9; -9), 2e-5 at (-35, 45.5; -20.5)",
    "parameters above 500: infinite or NaN if an intermediate value overflows, and NaN after "
    "20,000 steps",
]
_LOST = "`c` < 0, or parameters below -100: if fewer than two digits of the function are correct, "
SHORTFALLS: dict[str, list[str]] = {
    "Jv": _ORDERS,
    "Iv": _ORDERS,
    "Erfcinv": ["subnormal arguments: XLA flushes them to 0, where the result is infinite"],
    "Hyp2F1": [*_HYPERGEOMETRIC, f"{_LOST}it is NaN"],
    "Hyp2F1Der": [*_HYPERGEOMETRIC, f"{_LOST}the derivative is wrong"],
}
"""The arguments, and the size of the error, by the name of the Op."""
