"""Checks repeated calls, errors and steps without progress."""
