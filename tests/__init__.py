"""The tests. Their path mirrors the source."""
