"""Publication judges limits, retries, fallbacks and reviewers of a fabric."""
