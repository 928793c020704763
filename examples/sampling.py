"""Draws from a log-density by BlackJAX's No-U-Turn Sampler, several chains at once."""

import blackjax
import jax


def nuts(logdensity, starts, key, warmup, draws, acceptance=0.8):
    """The draws, with axes for chains and draws in front, and which of them diverged.

    A chain starts at its place of the first axis of `starts`, and finds its own step size and
    mass matrix in the warm-up, so that proposals are accepted at the given rate.
    """

    def chain(key, start):
        adapting, sampling = jax.random.split(key)
        adaptation = blackjax.window_adaptation(
            blackjax.nuts, logdensity, target_acceptance_rate=acceptance
        )
        (state, parameters), _ = adaptation.run(adapting, start, warmup)
        step = blackjax.nuts(logdensity, **parameters).step

        def advance(state, key):
            state, info = step(key, state)
            return state, (state.position, info.is_divergent)

        return jax.lax.scan(advance, state, jax.random.split(sampling, draws))[1]

    chains = len(jax.tree.leaves(starts)[0])
    return jax.jit(jax.vmap(chain))(jax.random.split(key, chains), starts)
