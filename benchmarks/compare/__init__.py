"""Whole systems beside each other: see ``benchmarks/bench.py``."""
