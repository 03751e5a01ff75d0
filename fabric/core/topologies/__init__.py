"""Topologies: one module for each, which decides the next step."""
