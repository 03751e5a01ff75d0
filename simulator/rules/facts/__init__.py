"""Tracks the facts of a run for the rules: its journal, its changes and its spending."""
