"""Reads give one run, its family, its inputs and its outcome."""
