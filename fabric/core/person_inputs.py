"""Inputs of a run's conversation from outside: messages, and changes of its context variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from fabric.core.frozen import value

JSON = Any


@value(kw_only=True)
class PersonSpoke:
    """A person sends a message into a run's conversation: whoever speaks next reads it. No turn is taken by it."""

    input_id: str
    actor: str
    text: str
    kind: Literal["person_spoke"] = "person_spoke"
    version: Literal[1] = 1


@value(kw_only=True)
class ContextGiven:
    """Somebody outside writes context variables of a run's conversation: a person, or a program in their name. No turn is taken by it."""

    input_id: str
    actor: str
    set: Mapping[str, JSON] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    """Keys that are deleted before others are set."""
    kind: Literal["context_given"] = "context_given"
    version: Literal[1] = 1
