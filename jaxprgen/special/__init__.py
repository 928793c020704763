"""Special functions of real values, each file with its sources."""
