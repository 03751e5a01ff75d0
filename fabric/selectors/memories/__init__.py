"""Reads list a fabric's memories and their history."""
