"""Reads list people's decisions, in rows, files and figures."""
