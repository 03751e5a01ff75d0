"""The composition root builds ports, model adapters and the worker from settings."""
