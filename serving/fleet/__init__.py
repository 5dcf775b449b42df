"""Several processes that answer calls on the same ports, and what keeps them together."""
