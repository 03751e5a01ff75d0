"""Checks a run's caps of money, tokens and speed."""
