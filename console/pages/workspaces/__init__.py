"""Owners set the policy of a workspace."""
