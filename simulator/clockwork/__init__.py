"""Sets the simulated time, and orders future actions."""
