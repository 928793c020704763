"""NumPy's vocabulary over atoms and known arrays. Knows no graph library.

Every function takes the `Builder` first and `Value` operands after it, appends what equations
it needs, and returns a `Value`. Shapes broadcast as in NumPy; dtypes do not promote: operands
are converted first (`convert`), because which dtype to compute in is the caller's knowledge.
"""
