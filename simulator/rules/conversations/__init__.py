"""Checks conversations by choosing each speaker anew from the journal."""
