"""Checks who answers reviews, and what a tool's server asks a person."""
