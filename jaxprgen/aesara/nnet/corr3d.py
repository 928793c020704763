"""Rules for `aesara.tensor.nnet.corr3d`: as in two dimensions."""

from aesara.tensor.nnet.corr3d import Corr3dMM, Corr3dMMGradInputs, Corr3dMMGradWeights

from jaxprgen.aesara.nnet.corr import (
    given_sizes,
    lower_correlation,
    lower_filter_gradient,
    lower_image_gradient,
)
from jaxprgen.lowering.registry import lowers

lowers(Corr3dMM, folds=False)(lower_correlation)
lowers(Corr3dMMGradWeights, folds=False, static=given_sizes)(lower_filter_gradient)
lowers(Corr3dMMGradInputs, folds=False, static=given_sizes)(lower_image_gradient)
