"""Actors, their roles, and their eligibility to answer a review."""
