"""Writes, plays and judges scenarios, without a database."""
