"""From a graph to equations: plan, rules, driver. Knows no graph library but by protocol."""
