"""Frozen values, money and the vocabulary of failure, used by all rooms above."""
