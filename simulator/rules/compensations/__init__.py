"""Checks calls that change the world, their keys and their compensations."""
