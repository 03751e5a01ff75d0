"""Adapters send audit lines and notifications, read documents and call identity providers."""
