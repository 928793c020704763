"""Where special functions are less accurate than a relative error of 1e-10 in double precision."""

SHORTFALLS: dict[str, list[str]] = {}
"""By the name of the Op: where that is, and how large the error is."""
