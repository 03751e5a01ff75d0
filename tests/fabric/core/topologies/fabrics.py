"""Fabrics of each topology, as short as a test can say them."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import agent
from tests.fabric.core.scripts import Answer, Script, asks, call, summary


def team(topology: JSON, *, agents: JSON = None, tools: tuple[str | JSON, ...] = (), **more: JSON) -> FabricSpec:
    """A fabric whose agents are exactly those that its topology names. ``agents``: further fields of some of them, by name; ``tools``: by name, or whole."""
    people = sorted(_named(topology))
    return FabricSpec.model_validate(
        {
            "name": "sample",
            "title": "A sample",
            "models": [{"name": "small", "provider": "scripted"}],
            "tools": [{"name": one} if isinstance(one, str) else one for one in tools],
            "agents": [agent(name, **(agents or {}).get(name, {})) for name in people],
            "topology": topology,
            "gates": more.pop("gates", {}),
            "decision_table": more.pop("table", {}),
            "policy": {"budget": {"run_usd_micros": 10_000_000}, **more},
        }
    )


def graph(
    *rules: JSON, workers: tuple[str, ...] = ("alice", "bob"), topology: JSON = None, **fields: JSON
) -> FabricSpec:
    """Those take turns, the first of them first; what no rule says ends it with ``done``."""
    given = {"initial_speaker": workers[0], "default_target": {"kind": "terminate", "reason": "done"}}
    return team(
        {"kind": "graph", "workers": list(workers), "transitions": list(rules), **given, **(topology or {})}, **fields
    )


def peers(*workers: str, topology: JSON = None, **fields: JSON) -> FabricSpec:
    """Those pass a request on; each has the tool for it."""
    having = {name: {"tools": ["transfer"]} for name in workers} | fields.pop("agents", {})
    return team({"kind": "handoff", "workers": list(workers), **(topology or {})}, agents=having, **fields)


def passes(to: str, brief: str = "It is yours.") -> Answer:
    """An answer that hands over."""
    return asks(call("transfer", to=to, brief=brief))


TOPICS = (
    "the invoice",
    "a parcel",
    "our contract",
    "the server",
    "their refund",
    "one meeting",
    "a password",
    "that flight",
)


def talks(*names: str) -> Mapping[str, Script]:
    """Each says something new whenever it speaks."""
    return {name: [summary(f"{name} knows more of {topic}.") for topic in TOPICS] for name in names}


def rule(when: JSON, then: JSON, order: int = 0) -> JSON:
    """A transition; a text is the kind of a condition, or a participant."""
    when = {"kind": when} if isinstance(when, str) else when
    then = {"kind": "agent", "agent": then} if isinstance(then, str) else then
    return {"when": when, "then": then, "order": order}


ROLES = ("planner", "aggregator", "critic", "plan_critic", "finalizer", "handover", "judge")


def _named(topology: JSON) -> set[str]:
    found = {*topology["workers"], *topology.get("critics", ())}
    found |= {name for role in ROLES if (name := topology.get(role))}
    for one in topology.get("teams", {}).values():
        found |= _named(one["topology"])
    return found


def briefs(*agents: str) -> JSON:
    """A fixed plan with a brief for each of them."""
    told = [
        {"agent": who, "title": f"Part {n + 1}", "instructions": f"Do part {n + 1}."} for n, who in enumerate(agents)
    ]
    return {"goal": "Answer.", "briefs": told, "exit_criteria": ["It answers the request."]}


def under(*workers: str, plan: tuple[str, ...] = (), **roles: JSON) -> JSON:
    """A supervisor's topology: with a planner among ``roles``, or with a brief for each worker, or for those of ``plan``."""
    given = {} if "planner" in roles else {"plan": briefs(*(plan or workers))}
    return {"workers": list(workers), **given, **roles}


def hierarchy(
    topology: JSON, teams: dict[str, JSON], caps: dict[str, JSON] | None = None, **fields: JSON
) -> FabricSpec:
    """``teams``: their topologies by lead; ``caps``: further fields of some."""
    led = {lead: {"topology": one, **(caps or {}).get(lead, {})} for lead, one in teams.items()}
    return team({"kind": "hierarchical", **topology, "teams": led}, **fields)


def duty(who: str, title: str, **fields: JSON) -> JSON:
    return {"agent": who, "title": title, "instructions": f"Do {title}.", **fields}


def sop(*duties: JSON, **fields: JSON) -> FabricSpec:
    workers = list(dict.fromkeys(one["agent"] for one in duties))
    return team({"kind": "sop", "workers": workers, "procedure": list(duties)}, **fields)
