"""A claim becomes a run in memory, and a batch becomes rows and messages."""
