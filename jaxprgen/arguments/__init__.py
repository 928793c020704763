"""The inputs of a function, and what a call may pass for them. Knows no graph library."""
