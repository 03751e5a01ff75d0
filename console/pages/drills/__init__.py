"""Operators start drills, and compare the promises of a decision table with observed behaviour."""
