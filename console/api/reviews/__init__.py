"""Programs read the review queue and answer reviews."""
