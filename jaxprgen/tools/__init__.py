"""Tools for reading and debugging programs; users find them in `jaxprgen.inspect`."""
