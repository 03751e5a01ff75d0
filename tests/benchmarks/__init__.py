"""Benchmarks: the engine under zero-latency agents, beside a bare journal loop in the same run."""
