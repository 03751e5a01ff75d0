"""Hostile input for everything that parses or evaluates, of the largest size that is taken, and a process that measures what each does."""
