"""Columns store row identities and packed bytes."""
