"""A process has a clock, threads, a lock and duties that one process does at a time."""
