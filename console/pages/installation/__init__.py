"""Serves health checks, and browsers' reports about stopped content."""
