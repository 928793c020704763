"""From graphs to programs, whatever the graph library."""
