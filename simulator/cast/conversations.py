"""Draws how fabrics of the swarm take turns, and how their agents call a conversation's tools."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fabric.core.events.inputs import ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.conversation import BY_KIND, FINISH, READ, TRANSFER, WRITE, members
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ToolOffer

SHARE = 0.12
"""Share of fabrics with two or more workers that take turns."""
KEYS = ("topic", "done", "round")
VALUES = (None, True, "billing", 1)
COMPARED = {
    ("topic", "billing"): {"compares": "contains", "value": "ill"},
    ("topic", True): {"compares": "matches", "value": "^(tr|b)"},
    ("done", 1): {"compares": "at_least", "value": "1"},
    ("round", True): {"compares": "is_set"},
}
"""Conditions on a variable's text, which replace some on its value."""


def draw_conversation(tree: JSON, number: int) -> None:
    """Let workers take turns by a graph or pass the request on in some fabrics, in place."""
    rng = Random(f"turns {number}")  # noqa: S311 - a simulation is to be repeatable
    workers = tree["topology"]["workers"]
    if len(workers) < 2 or rng.random() >= SHARE:
        return
    roles = {name: held for name, held in tree["topology"].items() if name != "plan"}
    tree["topology"] = {**roles, **(_graph(rng, tree, workers) if rng.random() < 0.7 else _peers(rng, workers))}
    tree["policy"]["limits"]["hops"] = rng.choice((1, 2, 5))
    _equip(rng, tree, workers, tree["topology"]["kind"])


def draw_team_turns(rng: Random, tree: JSON, workers: list[str]) -> JSON:
    """Return how a team takes turns or passes its brief on; its members get the tools for it, in place."""
    made = _graph(rng, tree, workers) if len(workers) == 1 or rng.random() < 0.5 else _peers(rng, workers)
    _equip(rng, tree, workers, made["kind"])
    return made


def _equip(rng: Random, tree: JSON, workers: list[str], kind: str) -> None:
    for agent in tree["agents"]:
        if agent["name"] in workers:
            agent["tools"] = [*agent["tools"], *(name for name in BY_KIND[kind] if rng.random() < 0.7)]


def _peers(rng: Random, workers: list[str]) -> JSON:
    passes = {name: [other for other in workers if rng.random() < 0.7] for name in workers if rng.random() < 0.9}
    return {"kind": "handoff", "first": rng.choice((None, workers[-1])), "passes": rng.choice((None, passes))}


def _graph(rng: Random, tree: JSON, workers: list[str]) -> JSON:
    rules = [
        {"when": _condition(rng, tree, workers), "then": _target(rng, workers), "order": rng.choice((0, 0, 1, -1))}
        for _ in range(rng.randrange(6))
    ]
    again = Random(f"again {rng.random()}")  # noqa: S311 - one of its own, drawn once
    tree["policy"].setdefault("failure_signature", {})["restart_limit"] = again.choice((0, 1, 2, 3))
    rules += [_restart(again, workers) for _ in range(again.choice((0, 0, 1, 2)))]
    quick = [{"seconds": 2.0}, {"seconds": 40.0, "on_violation": "auto_close"}]
    return {
        "kind": "graph",
        "initial_speaker": rng.choice(workers),
        "initiator": rng.choice((None, workers[0])),
        "transitions": rules,
        "default_target": rng.choice((None, {"kind": "round_robin"}, {"kind": "terminate", "reason": "over"})),
        "max_turns": rng.choice((2, 4, 9)),
        "context": rng.choice(({}, {"topic": "billing"})),
        "max_visits": rng.choice(({}, {}, {workers[0]: 2})),
        "goal_target": rng.choice((None, workers[-1])),
        **_led_back(again, workers),
        "ttl_s": rng.choice((None, None, 30.0)),
        **rng.choice(({}, {"expectations": quick}, {"expectations": []})),
    }


def _restart(rng: Random, workers: list[str]) -> JSON:
    """Return a restart edge, mostly for failures, so that it is blocked as well."""
    fails: JSON = {"kind": "outcome_is", "outcome": "fail"}
    when = rng.choice((fails, fails, {"kind": "error_class_is", "failure_class": "transient_infra"}))
    if rng.random() < 0.3:
        when = {"kind": "any_of", "conditions": [when, {"kind": "outcome_is", "outcome": "success"}]}
    order = rng.choice((-2, 0))
    return {"when": when, "then": {"kind": "agent", "agent": rng.choice(workers)}, "restart": True, "order": order}


def _led_back(rng: Random, workers: list[str]) -> JSON:
    """Return retry targets on some of the four levels."""
    own = {
        name: {"retry_target": rng.choice(workers), "fallback_retry_target": rng.choice((None, *workers))}
        for name in workers
        if rng.random() < 0.3
    }
    common = {"retry_target": rng.choice(workers), "fallback_retry_target": rng.choice((None, *workers))}
    return rng.choice(({}, {"retry_targets": own}, common, {"retry_targets": own, **common}))


def _condition(rng: Random, tree: JSON, workers: list[str], deep: bool = True) -> JSON:
    tools = [tool["name"] for tool in tree["tools"]] or [TRANSFER]
    simple: list[JSON] = [
        {"kind": "always"},
        {"kind": "from_speaker", "agent": rng.choice(workers)},
        {"kind": "tool_called", "tool": rng.choice(tools)},
        _of_variable(rng.choice(KEYS), rng.choice(VALUES)),
        {"kind": "outcome_is", "outcome": rng.choice(("fail", "fail", "success"))},
        {"kind": "error_class_is", "failure_class": rng.choice(("transient_infra", "deterministic"))},
    ]
    if deep and rng.random() < 0.3:
        inner = [_condition(rng, tree, workers, deep=False) for _ in range(2)]
        return rng.choice(
            (
                {"kind": "all_of", "conditions": inner},
                {"kind": "any_of", "conditions": inner},
                {"kind": "not", "condition": inner[0]},
            )
        )
    return rng.choice(simple)


def _of_variable(key: str, value: JSON) -> JSON:
    if (key, value) in COMPARED:
        return {"kind": "context_text", "key": key, **COMPARED[key, value]}
    return {"kind": "context_equals", "key": key, "value": value}


def _target(rng: Random, workers: list[str]) -> JSON:
    return rng.choice(
        (
            {"kind": "agent", "agent": rng.choice(workers)},
            {"kind": "round_robin"},
            {"kind": "stay"},
            {"kind": "revert_to_initiator"},
            {"kind": "terminate", "reason": "enough"},
        )
    )


def conversation_call(spec: FabricSpec, call: ToolCall, offered: Sequence[ToolOffer]) -> ToolCall:
    """Convert a query to a call of a conversation's tool; return any other call unchanged.

    ``offered``: tools offered to the agent, which name the possible targets of a handover.
    """
    query = call.args.get("query") if isinstance(call.args, dict) else None
    if not spec.of_conversation(call.tool) or not isinstance(query, str):
        return call
    own = next((one.parameters["properties"]["to"]["enum"] for one in offered if one.name == TRANSFER), None)
    number, workers = sum(query.encode()), own or members(spec.topology, call.tool)
    args: JSON = {
        TRANSFER: {"to": workers[number % len(workers)], "brief": f"What is left of {query}, as far as it is known."},
        FINISH: {"answer": f"All of {query}.", **({"reason": "known"} if number % 2 else {})},
        WRITE: {"set": {KEYS[number % 3]: VALUES[number % 4]}, "delete": [KEYS[number % 2]]},
        READ: {"key": KEYS[number % 3]} if number % 2 else {},
    }[call.tool]
    return ToolCall(call_id=call.call_id, tool=call.tool, args=args)


def draw_conversation_calls(spec: FabricSpec, tools: list[str], turn: int, rng: Random) -> tuple[ToolCall, ...]:
    """Return one or two calls of a conversation's tools, as queries; none if the agent has no such tool."""
    names = [name for name in tools if spec.of_conversation(name)]
    asked = [(rng.choice(names), rng.randrange(9)) for _ in range(rng.choice((1, 2)))] if names else []
    return tuple(
        ToolCall(call_id=f"v{turn}-{n}", tool=name, args={"query": f"part {what}"})
        for n, (name, what) in enumerate(asked)
    )
