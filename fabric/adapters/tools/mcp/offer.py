"""A tool as its MCP server describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JSON = Any


@dataclass(frozen=True, slots=True)
class Offer:
    """None of it is taken for true but its name and the form of its arguments. Hints that the server does not give are None."""

    name: str
    description: str
    schema: Mapping[str, JSON]
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None

    @property
    def silent(self) -> bool:
        """Whether it says nothing of what the tool does to the world."""
        return self.read_only is None and self.idempotent is None and self.destructive is None
