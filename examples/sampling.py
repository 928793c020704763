"""Sample a log-density with BlackJAX's No-U-Turn Sampler."""

import blackjax
import jax


def nuts(logdensity, starts, key, warmup, draws, acceptance=0.8):
    """Return draws, with leading axes for chains and draws, and tell which of them diverged.

    Chain `i` starts at `starts[i]`. During the warm-up, each chain adapts its step size and mass
    matrix to the given acceptance rate.
    """
    chains = len(jax.tree.leaves(starts)[0])
    run = jax.vmap(chain(logdensity, warmup, draws, acceptance))
    return jax.jit(run)(jax.random.split(key, chains), starts)


def chain(logdensity, warmup, draws, acceptance=0.8):
    """Return the function that samples one chain, given a key and a start."""

    def run(key, start):
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

    return run
