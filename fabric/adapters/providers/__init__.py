"""The model port for real: the adapters that ask models, the router between them, and what models cost."""
