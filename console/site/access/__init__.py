"""Identifies the sender of a request, checks its rights, and records acts in the audit trail."""
