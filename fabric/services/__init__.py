"""Each service checks rights, acts in one transaction and records the act."""
