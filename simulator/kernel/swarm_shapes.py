"""How workers of the swarm's fabrics work together where nobody is a plain supervisor: teams (some of which take turns or pass on their brief), debates, procedures (semantics.md 5).

Each is drawn from a generator of its own, so that fabrics without them stay as they were.
"""

from __future__ import annotations

from random import Random
from typing import Any

from simulator.kernel import conversing
from simulator.kernel.swarm_layers import without_ways

JSON = Any
SHARE = 0.16
"""How many of the fabrics whose workers lead no teams debate or follow a procedure."""
TALKING = 0.45
"""How many of the fabrics whose workers lead teams have one that takes turns by a graph, or passes its brief on."""
PLANNED = ("planner", "plan", "plan_critic")
ROOM = 16


def shaped(tree: JSON, number: int, *, lead: bool, anew: bool) -> None:
    """Gives some fabrics another kind of topology, in place. ``lead``: the first worker leads a team. ``anew``: which plans for itself."""
    topology, workers = tree["topology"], tree["topology"]["workers"]
    rng = Random(f"shape {number}")  # noqa: S311 - a simulation is to be repeatable
    if "kind" in topology:
        return
    if lead and len(workers) > 1:
        _led(tree, rng, number, anew=anew)
    elif rng.random() < SHARE:
        made = _debate(tree, workers, rng) if len(workers) > 1 and rng.random() < 0.6 else _procedure(workers, rng)
        roles = {name: held for name, held in topology.items() if name not in PLANNED}
        tree["topology"] = {**roles, **made}
        tree["policy"] = without_ways(tree["policy"])
        _roomy(tree["policy"])


def _roomy(policy: JSON) -> None:
    """What is done in it may be done."""
    policy["limits"]["plan_branches"] = ROOM


def _plans_itself(tree: JSON, teams: JSON, others: list[str]) -> None:
    """The first team plans for itself, now more and now less, and has a team below it where there are enough for one."""
    lead = next(iter(teams))
    topology = {"workers": others, "aggregator": tree["topology"].get("aggregator"), "planner": _planner(tree, lead)}
    teams[lead] = {"topology": topology}
    if len(others) > 1:
        teams[others[0]] = {"topology": {"workers": others[1:], "plan": _plan(others[1:])}}


def _planner(tree: JSON, lead: str) -> str:
    _in_json(tree, lead)
    _without_data(tree, lead)
    return lead


def _plan(workers: list[str]) -> JSON:
    """A brief for each of them."""
    briefs = [{"agent": name, "title": f"Part of {name}", "instructions": "Say what bears on it."} for name in workers]
    return {"goal": "Answer the brief.", "briefs": briefs, "exit_criteria": ["The brief is answered."]}


def _in_json(tree: JSON, *names: str) -> None:
    for agent in tree["agents"]:
        if agent["name"] in names:
            agent["answers"] = "json"


def _beside(tree: JSON, name: str) -> str:
    """One more agent, as the first one is."""
    if all(agent["name"] != name for agent in tree["agents"]):
        like = tree["agents"][0]
        more = {"name": name, "instructions": f"You are {name}.", "answers": "json"}
        tree["agents"].append(
            {key: held for key, held in like.items() if key not in ("persona", "output_schema")} | more
        )
    return name


def _debate(tree: JSON, sides: list[str], rng: Random) -> JSON:
    found: JSON = {"kind": "debate", "workers": sides, "rounds": rng.choice((1, 2, 2, 3))}
    found["critics"] = [_beside(tree, "sceptic")] if rng.random() < 0.4 else []
    if rng.random() < 0.5:
        found["judge"] = _beside(tree, "arbiter")
    else:
        _in_json(tree, *sides)
    return found


def _procedure(workers: list[str], rng: Random) -> JSON:
    items = []
    for n in range(1 + rng.randrange(5)):
        reads = None if rng.random() < 0.6 else [m + 1 for m in range(n) if rng.random() < 0.5]
        item = {"agent": rng.choice(workers), "title": f"Item {n + 1}", "instructions": "Do what comes next."}
        items.append({**item, "reads": reads})
    return {"kind": "sop", "workers": workers, "procedure": items}


def _led(tree: JSON, rng: Random, number: int, *, anew: bool) -> None:
    """The first worker leads the others; in some fabrics the second leads those behind it, too."""
    first, *others = tree["topology"]["workers"]
    teams = {first: _team(tree, first, others, rng)}
    if len(others) > 1 and rng.random() < 0.4 and "kind" not in teams[first]["topology"]:
        teams[others[0]] = _team(tree, others[0], others[1:], rng)
    if anew:
        _plans_itself(tree, teams, others)
    talks = Random(f"talks {number}")  # noqa: S311 - of its own, so that teams that do not talk stay as they were
    if talks.random() < TALKING:
        last = list(teams)[-1]  # Nobody in it leads another.
        _let_talk(tree, teams[last]["topology"], talks)
    tree["topology"] = {**tree["topology"], "kind": "hierarchical", "teams": teams}
    if rng.random() < 0.15 and "retry_layers" not in tree["policy"]:
        # Runs beside runs, with less room for them than for their agents: the family is full before its agents are counted out.
        tree["policy"]["limits"] |= {"fan_out_inline_max": 1, "sub_agents_alive": 2, "sub_agents_spawned": 64}


def _team(tree: JSON, lead: str, others: list[str], rng: Random) -> JSON:
    roles = {"workers": others, "aggregator": tree["topology"].get("aggregator")}
    kind = rng.choice(("plan", "plan", "planner", "sop", "debate"))
    if kind == "planner":
        roles["planner"] = _planner(tree, lead)
    elif kind == "sop":
        roles |= _procedure(others, rng)
    elif kind == "debate" and len(others) > 1:
        roles |= _debate(tree, others, rng)
    else:
        roles["plan"] = _plan(others)
    if roles.get("kind"):
        _roomy(tree["policy"])
    return {
        "topology": roles,
        "run_usd_micros": rng.choice((None, None, 5_000, 60_000)),
        "run_tokens": rng.choice((None, None, 9_000)),
    }


def _let_talk(tree: JSON, topology: JSON, rng: Random) -> None:
    """The team takes turns by a graph or passes its brief on in place of what it did; who planned for it plans for its members now."""
    kept = {name: held for name, held in topology.items() if name in ("workers", "aggregator", "planner")}
    made = conversing.talking(rng, tree, kept["workers"])
    topology.clear()
    topology |= {**kept, **made}
    tree["policy"]["limits"]["hops"] = rng.choice((1, 2, 5))
    _roomy(tree["policy"])


def _without_data(tree: JSON, name: str) -> None:
    for agent in tree["agents"]:
        if agent["name"] == name:
            agent.pop("output_schema", None)
