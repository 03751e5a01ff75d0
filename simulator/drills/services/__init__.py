"""Starts and stops drills of published fabrics and of drafts."""
