"""Reads summarise an installation's present work, and list the runs and reviews that need attention."""
