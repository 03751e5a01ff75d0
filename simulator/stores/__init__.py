"""Stores of the virtual world, which fail on demand and let rules count their rows."""
