"""Fabrics that name models over HTTP, and a scripted endpoint that answers a test call's probes."""

from __future__ import annotations

import json

from simulator.endpoint import Received, Step, answer, call

KEY = "sk-stored-9876543210zyxwvu"
PRICED = "price: {input_usd_per_mtok: 0.15, output_usd_per_mtok: 0.60}"
DEAR = "price: {input_usd_per_mtok: 3, output_usd_per_mtok: 12}"
"""Above what the price list says of the models that tests name."""


def fabric(name: str, *models: str) -> str:
    """A fabric whose planner and reader use the first of these models, each a flow mapping's inside without its name."""
    rows = "\n".join(f"  - {{name: m{n}, {model}}}" for n, model in enumerate(models))
    agents = "\n".join(f"  - {{name: {who}, model: m0, instructions: Work.}}" for who in ("planner", "reader"))
    budget = "policy:\n  budget: {run_usd_micros: 1000000}\nreviewers: [owner]\nsafe_fallback: No.\n"
    topology = "topology:\n  planner: planner\n  workers: [reader]\n"
    return f"name: {name}\ntitle: It asks over HTTP\nmodels:\n{rows}\nagents:\n{agents}\n{topology}{budget}"


def able(received: Received) -> Step:
    """A model that can do all that a test call looks for."""
    body = received.body
    if body.get("tools"):
        return answer("", [call("tell_word", {"word": "ready"}, "c1")], usage=(40, 8))
    if body.get("response_format"):
        return answer(json.dumps({"clear": False}), usage=(20, 6))
    return answer("ready", usage=(12, 2))


def plain(received: Received) -> Step:
    """A model that answers in words, whatever goes with the request."""
    return answer("No, it is cloudy then.", usage=(12, 2))
