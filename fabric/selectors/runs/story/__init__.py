"""A run's journal is folded into lanes, waits, attempts and trips."""
