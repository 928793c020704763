"""Windows along an axis are those of the convolutions by which JAX differentiates."""

import jax
import numpy as np
from hypothesis import assume, given, strategies as st
from jax import lax
from profiles import examples

from jaxprgen.emit.windows import Window, span

sizes, steps, padding = st.integers(1, 6), st.integers(1, 4), st.integers(-1, 3)
windows = st.builds(Window, sizes, sizes, steps, steps, steps, padding, padding)


def correlate(window):
    def function(x, w):
        return lax.conv_general_dilated(
            x,
            w,
            (window.stride,),
            [(window.low, window.high)],
            (window.x_dilation,),
            (window.w_dilation,),
            ("NCH", "OIH", "NCH"),
        )

    return function


def window_of(eqn):
    """The window of the only axis of a convolution."""
    params = eqn.params
    names = params["dimension_numbers"]
    x, w = (v.aval.shape for v in eqn.invars)
    return Window(
        x[names.lhs_spec[2]],
        w[names.rhs_spec[2]],
        *(params[name][0] for name in ("window_strides", "lhs_dilation", "rhs_dilation")),
        *params["padding"][0],
    )


@examples(10)
@given(windows)
def test_derivatives_are_those_of_jax(window):
    extent = window.low + span(window.size, window.x_dilation) + window.high
    assume(extent >= span(window.filter_size, window.w_dilation))
    x, w = np.ones((1, 1, window.size)), np.ones((1, 1, window.filter_size))
    function = correlate(window)
    out = jax.eval_shape(function, x, w)
    assert out.shape == (1, 1, window.windows)
    y = np.ones(out.shape)
    transposes = (
        lambda y: jax.linear_transpose(lambda x: function(x, w), x)(y),
        lambda y: jax.linear_transpose(lambda w: function(x, w), w)(y),
    )
    for transpose, ours in zip(transposes, window.transposes(), strict=True):
        equations = jax.make_jaxpr(transpose)(y).jaxpr.eqns
        (theirs,) = [e for e in equations if e.primitive is lax.conv_general_dilated_p]
        assert window_of(theirs) == ours


def test_only_few_convolutions_change():
    groups = Window(3, 3, 2, 3, 1, 0, 0)
    assert not groups.is_taken_for_groups()
    assert groups._replace(size=4).is_taken_for_groups()
    assert groups._replace(size=4).zeros_in_place_of_padding() == 1
    plain = Window(9, 3, 2, 1, 1, 1, 1)
    assert plain.zeros_in_place_of_padding() == 0
