"""The protocols that are served, by path, and their lists of models."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Name
from simulator.endpoint.protocols.anthropic import ANTHROPIC
from simulator.endpoint.protocols.chat import CHAT
from simulator.endpoint.protocols.google import GOOGLE
from simulator.endpoint.protocols.protocol import Protocol
from simulator.endpoint.protocols.responses import RESPONSES
from simulator.endpoint.wire.server import Received
from simulator.endpoint.wire.steps import Step

COMPLETIONS = "/v1/chat/completions"
PROTOCOLS: Mapping[Name, Protocol] = {one.name: one for one in (CHAT, RESPONSES, ANTHROPIC, GOOGLE)}
PATHS: Mapping[Name, re.Pattern[str]] = {
    "chat": re.compile(r".*/chat/completions"),
    "responses": re.compile(r".*/responses"),
    "anthropic": re.compile(r".*/messages"),
    "google": re.compile(r".*/models/[^/:]+:(?:generateContent|streamGenerateContent)"),
}
SERVED = f"{COMPLETIONS}, /v1/responses, /v1/messages or /v1beta/models/MODEL:generateContent"
_models = re.compile(r"(?P<base>.*)/models(?:/(?P<one>[^/:]+))?")
_SCRIPTED = "scripted"
LISTED: Mapping[str, JSON] = {
    "openai": {"id": _SCRIPTED, "object": "model", "created": 1_700_000_000, "owned_by": _SCRIPTED},
    "anthropic": {
        "id": _SCRIPTED,
        "type": "model",
        "display_name": "Scripted",
        "created_at": "2026-01-31T12:00:00Z",
    },
    "google": {
        "name": f"models/{_SCRIPTED}",
        "displayName": "Scripted",
        "supportedGenerationMethods": ["generateContent"],
        "inputTokenLimit": 1_000_000,
        "outputTokenLimit": 65_536,
    },
}
"""The one model, as each protocol lists it."""


def path_without_query(path: str) -> str:
    """Return a path without its query, which may hold a key."""
    return path.partition("?")[0]


def find_protocol(path: str) -> Protocol | None:
    """Returns the protocol that is asked for; None: nothing is served there."""
    found = path_without_query(path)
    return next((PROTOCOLS[name] for name, pattern in PATHS.items() if pattern.fullmatch(found)), None)


def list_models(received: Received) -> Step | None:
    """Return the list of models, or the one model, in the form of the client.

    None: the request wants something else.
    """
    found = _models.fullmatch(path_without_query(received.path))
    if found is None:
        return None
    if found["base"].endswith("/v1beta"):
        model = LISTED["google"]
        listed: dict[str, JSON] = {"models": [model]}
    elif "anthropic-version" in received.headers:
        model = LISTED["anthropic"]
        listed = {"data": [model], "has_more": False, "first_id": model["id"], "last_id": model["id"]}
    else:
        model = LISTED["openai"]
        listed = {"object": "list", "data": [model]}
    return Step(body=json.dumps(model if found["one"] else listed).encode())
