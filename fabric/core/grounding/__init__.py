"""Grounding: compares an answer with the sources that it may cite."""
