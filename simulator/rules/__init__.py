"""Checks that every world obeys its rules. Each folder has the rules of one topic, their planted bugs, and its
draws.
"""
