"""What an event carries, as it is read for pages and programs."""

from __future__ import annotations

import json
from typing import Any

JSON = Any


def content_of(payload: bytes | memoryview | None) -> JSON:
    """A payload as JSON. None: there is none, or it was damaged where it is stored (``verify`` names it), which takes no page away."""
    try:
        return None if payload is None else json.loads(bytes(payload))
    except (ValueError, RecursionError):
        return None
