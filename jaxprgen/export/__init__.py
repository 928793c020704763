"""Programs outside of this process: exported for JAX, saved to a file, loaded and called.

Nothing here knows graphs. What `jaxprgen.load` imports needs jax, jaxlib and numpy alone.
"""
