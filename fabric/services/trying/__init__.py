"""Trying a check of a fabric on a sample: the very functions that runs ask, without a run. Nothing is journaled and nobody is asked.

``trials.py`` has the table and the samples, ``apart.py`` tries them.
"""
