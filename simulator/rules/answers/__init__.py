"""Checks answers against their schemas and their streams."""
