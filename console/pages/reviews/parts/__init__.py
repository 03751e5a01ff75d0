"""Parts of a review's page."""
