"""Where special functions are less accurate than a relative error of 1e-10 in double precision."""

_ORDERS = [
    "orders above 1e5: the relative error is 1e-15 times the order",
    "without x64, single precision throughout: an error of 1e-3 for orders up to 40",
]
_HYPERGEOMETRIC = [
    "`z` < -1 with `a` and `b` both above 30 and above 2 `c`: errors of 3e-9, at most 1e-7",
    "`c` < -5: digits are lost as `a` and `b` grow, 1e-8 at (9, 9; -9), 2e-5 at (-35, 45.5; -20.5)",
    "parameters above 500: what overflows on the way is infinite or NaN, and what takes more than "
    "20,000 steps is NaN",
]
_LOST = "`c` < 0, or parameters below -100: where fewer than two digits are left"
SHORTFALLS: dict[str, list[str]] = {
    "Jv": _ORDERS,
    "Iv": _ORDERS,
    "Erfcinv": ["subnormal arguments: XLA takes them for 0, where the result is infinite"],
    "Hyp2F1": [*_HYPERGEOMETRIC, f"{_LOST}, NaN"],
    "Hyp2F1Der": [*_HYPERGEOMETRIC, f"{_LOST} of the function, the derivative is wrong"],
}
"""By the name of the Op: where that is, and how large the error is."""
