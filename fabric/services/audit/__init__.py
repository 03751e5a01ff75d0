"""Services seal, forward, retain and checkpoint the audit stream."""
