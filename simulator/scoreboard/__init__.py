"""Plays each misbehaviour against a new fabric's defaults, and judges the caller's view."""
