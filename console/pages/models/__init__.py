"""Operators manage endpoints, keys and circuit breakers of models."""
