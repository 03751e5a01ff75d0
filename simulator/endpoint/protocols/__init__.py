"""The protocols that are served, by path, and their lists of models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simulator.endpoint.protocols.chat import CHAT
from simulator.endpoint.protocols.protocol import Protocol
from simulator.endpoint.scenario import Name
from simulator.endpoint.server import Received
from simulator.endpoint.steps import Step

JSON = Any

COMPLETIONS = "/v1/chat/completions"
PROTOCOLS: Mapping[Name, Protocol] = {one.name: one for one in (CHAT,)}
SERVED = "/v1/chat/completions"


def bare(path: str) -> str:
    """A path without its query, which may hold a key."""
    return path.partition("?")[0]


def spoken(path: str) -> Protocol | None:
    """Which protocol is asked for; None: nothing is served there."""
    if bare(path).endswith("/chat/completions"):
        return PROTOCOLS["chat"]
    return None


def models(received: Received) -> Step | None:
    """The list of models, or the one model, in the form of who asks; None: something else is asked for."""
    path = bare(received.path)
    if not path.endswith("/models"):
        return None
    return Step(body=json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}).encode())
