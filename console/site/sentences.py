"""Services' messages become sentences of pages and documents."""

from __future__ import annotations


def sentence(message: str) -> str:
    """Return a service's message with a capital and an end."""
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
