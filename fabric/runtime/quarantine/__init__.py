"""The engine puts a run aside that it may not drive."""
