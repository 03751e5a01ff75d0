"""Owners set the policy of their workspace."""
