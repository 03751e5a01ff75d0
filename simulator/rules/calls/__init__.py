"""Checks calls: attempts, references, personas and approvals."""
