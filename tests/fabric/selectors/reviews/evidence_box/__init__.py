"""Mirrors fabric/selectors/reviews/evidence_box."""
