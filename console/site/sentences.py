"""Services' messages become sentences of pages and documents."""

from __future__ import annotations

import re

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")


def sentence(message: str) -> str:
    """Return a service's message with a capital and an end. An address at its begin stays as it is."""
    text = message if ADDRESS.match(message) else message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."
