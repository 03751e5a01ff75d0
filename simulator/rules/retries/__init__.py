"""Checks node retries and shared retry tokens."""
