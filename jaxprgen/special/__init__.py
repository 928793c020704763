"""Special functions, each file with its sources."""
