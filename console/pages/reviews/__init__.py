"""Reviewers see the waiting reviews, and answer them."""
