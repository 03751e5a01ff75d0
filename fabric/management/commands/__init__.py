"""Operators run these commands with `manage.py`."""
