"""Workflows of Fabro become transition graphs."""
