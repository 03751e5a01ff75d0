"""Checks circuit breakers and fallback models."""
