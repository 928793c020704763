"""NumPy's vocabulary on values of a program. Knows no graph library.

A function takes and returns `jaxprgen.emit.values.Value`, and appends the equations that it needs
to the builder of the innermost ``with builder:`` (`jaxprgen.ir.current_builder`). Shapes broadcast
as in NumPy. Dtypes do not promote: callers convert operands with `Value.astype`, because only they
know the dtype to compute in.
"""
