"""Reads list, export and verify the audit stream, the journals and legal holds."""
