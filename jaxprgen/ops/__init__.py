"""Rules for the Ops that Aesara and PyTensor spell alike, by name; neither library is imported."""

from jaxprgen.ops import (
    advanced_subtensor as advanced_subtensor,
    basic as basic,
    blas as blas,
    builders as builders,
    diagonal as diagonal,
    elemwise as elemwise,
    extra_ops as extra_ops,
    fft as fft,
    identity as identity,
    ifelse as ifelse,
    loop_results as loop_results,
    masked as masked,
    math as math,
    nlinalg as nlinalg,
    random as random,
    scan as scan,
    shape as shape,
    slinalg as slinalg,
    subtensor as subtensor,
)
