"""The evidence box of a review: the events, results and numbers that answer "once more?"."""
