"""Operators see which notifications were sent, and send failed ones again."""
