"""Builds every page's frame: navigation, waiting work and search."""
