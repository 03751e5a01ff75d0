"""The player runs a cell or a scenario in simulated time and judges it."""
