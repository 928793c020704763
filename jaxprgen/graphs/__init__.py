"""Graphs of the graph libraries: their plans, tables to pickle them by, names and checks."""
