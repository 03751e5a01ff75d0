"""Judges one answer of a drafted agent by the shape and the schema that a run would want of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pydantic import ValidationError

from fabric.core.events.inputs import ModelReplied
from fabric.core.schema.payloads import AGENT_OUTPUT, TYPED
from fabric.core.spec.tree import AgentSpec
from fabric.core.state.demands import list_problems
from fabric.core.steps.agent_loop import EMPTY, ONLY_THINKING, split_thinking
from fabric.core.texts.text import parse_json_object
from fabric.core.values.units import JSON

SHAPES: Mapping[str, str] = {
    "planner": "plan",
    "critic": "critique",
    "plan_critic": "judgement",
    "grounding_critic": "judgement",
    "oracle": "judgement",
    "judge": "verdict",
}
"""Shape of an answer by role; that of all other roles is a summary."""
NO_ROLE = "worker"


def list_shapes(tree: Mapping[str, JSON], agent: str) -> dict[str, str]:
    """Return the shape of an agent's answer by its role in a draft, one role for each shape. Without a role it is
    asked as a worker.
    """
    found: dict[str, str] = {}
    for role, name in _list_roles(tree):
        shape = SHAPES.get(role, "summary")
        if name == agent and shape not in found.values():
            found[role.replace("_", " ")] = shape
    return found or {NO_ROLE: "summary"}


def _list_roles(tree: Mapping[str, JSON]) -> Iterator[tuple[str, JSON]]:
    """Yield the roles in the topology, in those of its teams and at the gates, with their agents."""
    for topology in _list_topologies(tree.get("topology")):
        for role, named in topology.items():
            if role != "kind":
                for name in named if isinstance(named, list) else [named]:
                    yield ("worker" if role == "workers" else role), name
    gates = tree.get("gates")
    if isinstance(gates, dict):
        yield "grounding_critic", gates.get("grounding_critic")
        oracle = gates.get("oracle")
        for one in oracle if isinstance(oracle, list) else []:
            yield "oracle", one.get("critic") if isinstance(one, dict) else None


def _list_topologies(topology: JSON) -> Iterator[dict[str, JSON]]:
    if not isinstance(topology, dict):
        return
    yield topology
    teams = topology.get("teams")
    for team in teams.values() if isinstance(teams, dict) else ():
        if isinstance(team, dict) and isinstance(team.get("topology"), dict):
            yield team["topology"]


def list_misfits(
    agent: AgentSpec, shape: str, reply: ModelReplied, fits: Callable[[JSON], list[str]] | None
) -> tuple[str, ...]:
    """Return why an answer does not fit, as a run would tell its model. ``fits``: the agent's own schema."""
    text, thinking = split_thinking(reply.text)
    if reply.finish == "content_filter":
        return ("the provider's content filter withheld the answer",)
    if reply.finish == "length":
        return (f"the answer was cut at {reply.output_tokens:,} tokens, the most that the agent may answer",)
    if not text.strip():
        return (ONLY_THINKING if thinking else EMPTY,)
    if agent.answers == "text":
        return ()
    given, problem = parse_json_object(text.strip())
    if given is None:
        return (problem,)
    own = fits if shape == "summary" else None
    model = AGENT_OUTPUT[shape]
    try:
        (TYPED[model] if own else model).model_validate(given)
    except ValidationError as error:
        return (*list_problems(error), *(own(given) if own else ()))
    return tuple(own(given)) if own else ()
