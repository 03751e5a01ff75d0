"""Sends news of a run to its open pages: one reader for each watched run serves all of them."""
