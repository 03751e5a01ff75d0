"""Processes wake each other, and a lost wake-up costs only time."""
