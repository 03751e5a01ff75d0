"""A sans-I/O driver steps one run and returns effects, and it never waits."""
