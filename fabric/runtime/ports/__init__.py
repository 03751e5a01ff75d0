"""Ports: protocols by which the engine uses the world, and the values that cross them."""
