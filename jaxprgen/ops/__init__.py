"""Rules for the Ops that Aesara and PyTensor spell alike, by name; neither library is imported."""

from jaxprgen.ops import advanced_subtensor as advanced_subtensor
from jaxprgen.ops import basic as basic
from jaxprgen.ops import blas as blas
from jaxprgen.ops import builders as builders
from jaxprgen.ops import diagonal as diagonal
from jaxprgen.ops import elemwise as elemwise
from jaxprgen.ops import extra_ops as extra_ops
from jaxprgen.ops import fft as fft
from jaxprgen.ops import identity as identity
from jaxprgen.ops import ifelse as ifelse
from jaxprgen.ops import loop_results as loop_results
from jaxprgen.ops import masked as masked
from jaxprgen.ops import math as math
from jaxprgen.ops import nlinalg as nlinalg
from jaxprgen.ops import random as random
from jaxprgen.ops import scan as scan
from jaxprgen.ops import shape as shape
from jaxprgen.ops import slinalg as slinalg
from jaxprgen.ops import subtensor as subtensor
