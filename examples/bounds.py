"""Bound the height of a thrown ball, with the interval interpreter of `intervals`."""

import jax
import jax.numpy as jnp
import numpy as np
from intervals import between, bounds


def main():
    def height(speed, angle, time):
        return speed * jnp.sin(angle) * time - 9.81 / 2 * time**2

    found = bounds(height)(between(9.0, 11.0), between(0.7, 0.8), 0.5)
    print("after half a second, between", found.low.round(2), "and", found.high.round(2))
    try:
        bounds(lambda x: jax.scipy.special.gammaln(x).sum())(between(np.ones(2), 2 * np.ones(2)))
    except NotImplementedError as error:
        print(error)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
