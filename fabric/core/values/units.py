"""Names that every room uses: the type of parsed JSON, and the units of time and money."""

from __future__ import annotations

from typing import Any

JSON = Any
"""Parsed JSON: None, a bool, a number, a text, a list or a dict."""
US = 1_000_000
"""Microseconds in a second; instants are microseconds since the epoch."""
MICROS = 1_000_000
"""Micro-dollars in a dollar."""
