"""Reads show the state of models' and tools' circuit breakers."""
