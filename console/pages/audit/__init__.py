"""Auditors read the audit trail and place legal holds."""
