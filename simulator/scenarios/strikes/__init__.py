"""Faults strike calls and processes here, in the virtual world and at the drills' provider."""
