"""Checks the turns of debates, procedures and teams."""
