"""Compiled functions: programs, their cache, arguments, shared state, reports and the linker."""
