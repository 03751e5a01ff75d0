"""Mirrors fabric/selectors/reviews/evidence."""
