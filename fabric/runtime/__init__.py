"""The sans-I/O runtime: a driver that never waits, and the ports it speaks through.

Two interpreters run the driver: ``adapters/host.py`` (real) and ``simulator/kernel/world.py`` (virtual).
"""
