"""Checks debates, procedures and teams in the simulator. Has planted bugs and draws for the swarm too.

They are counted anew from the journaled contents. Draws give fabrics teams, debates and procedures in place of a plain
supervisor. Some teams take turns or pass on their brief (docs/specification/topologies.md). Each has a generator of its
own, so that fabrics without them stay unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from random import Random
from typing import Any

from fabric.core.child_runs import children
from fabric.core.events.envelope import Event
from fabric.core.spec.topologies.debate import DebateTopology
from fabric.core.spec.topologies.hierarchical import HierarchicalTopology
from fabric.core.spec.topologies.sop import SopTopology
from fabric.core.state.run import Run
from fabric.core.topologies import debate, sop
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from simulator.cast import conversations as conversing
from simulator.cast.services import BOOK, CANCEL
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check
from simulator.rules.gates.checks import UNLUCKY
from simulator.rules.retries.checks import without_ways


@register_check("turn_opened", "replanned")
def turns_in_order(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Items and rounds are in order: no agent speaks twice in a round, and none begins during another."""
    if fact.kind == "replanned":
        seen.turns = []
        return ""
    topology = seen.compiled.spec.topology
    if fact.branch != len(seen.turns):
        return f"turn {fact.branch} is opened after {len(seen.turns)}"
    seen.turns.append(fact)
    if isinstance(topology, SopTopology):
        return _item(seen, topology, fact)
    return _turn(seen, topology, fact) if isinstance(topology, DebateTopology) else ""


def _are_over(seen: WatchedRun, branches: range) -> bool:
    steps = {step.branch: step.status for step in seen.run.steps.values() if step.stage == "fan_out"}
    return all(steps.get(branch) in ("done", "failed") for branch in branches)


def _is_done(seen: WatchedRun, branch: int) -> bool:
    return any(
        step.branch == branch and step.status == "done" for step in seen.run.steps.values() if step.stage == "fan_out"
    )


def _item(seen: WatchedRun, topology: SopTopology, fact: Any) -> str:
    number = fact.branch
    if number >= len(topology.procedure):
        return f"turn {number + 1} of {len(topology.procedure)} items"
    item = topology.procedure[number]
    if (fact.agent, fact.brief) != (item.agent, number):
        return f"{fact.agent} does item {fact.brief + 1}, item {number + 1} is {item.agent}'s"
    if not _are_over(seen, range(number)):
        return "it begins before the items before it are over"
    reads = range(1, number + 1) if item.reads is None else item.reads
    wanted = tuple(n - 1 for n in reads if _is_done(seen, n - 1))
    return "" if fact.hears == wanted else f"it reads {fact.hears}, its item says {wanted}"


def _turn(seen: WatchedRun, topology: DebateTopology, fact: Any) -> str:
    sides, critics = len(topology.workers), len(topology.critics)
    waves = _waves(seen.turns, sides, critics)
    wave, what = waves[-1], _what(fact.brief, sides, critics)
    speakers = Counter(one.brief for one in wave)
    if speakers[fact.brief] > 1:
        return f"{fact.agent} speaks twice in one round"
    held = sum(_what(one[0].brief, sides, critics) == "side" for one in waves)
    if what == "side" and held > topology.rounds:
        return f"round {held} of {topology.rounds}"
    if what == "end" and held < topology.rounds:
        return f"it is decided after round {held} of {topology.rounds}"
    if not _are_over(seen, range(fact.branch - len(wave) + 1)):
        return "it begins while the one before goes on"
    if what == "side" and len(waves) > 1 and set(fact.hears) != _last_round(seen, waves[:-1], sides, critics):
        return f"it hears {fact.hears}, and not all of the round before"
    return _choices(topology, fact) if what == "end" else ""


def _what(brief: int, sides: int, critics: int) -> str:
    return "side" if brief < sides else "critic" if brief < sides + critics else "end"


def _waves(turns: list[Any], sides: int, critics: int) -> list[list[Any]]:
    """Return the turns in groups: a round's proposals, its criticism, the end."""
    found: list[list[Any]] = []
    for one in turns:
        what = _what(one.brief, sides, critics)
        again = bool(found) and found[-1][-1].brief >= one.brief and what != "end"
        if not found or again or _what(found[-1][0].brief, sides, critics) != what:
            found.append([])
        found[-1].append(one)
    return found


def _last_round(seen: WatchedRun, waves: list[list[Any]], sides: int, critics: int) -> set[int]:
    last = waves[-1:]
    if _what(waves[-1][0].brief, sides, critics) == "critic":
        last = waves[-2:]
    return {one.branch for wave in last for one in wave if _is_done(seen, one.branch)}


def _choices(topology: DebateTopology, fact: Any) -> str:
    if not fact.choices or set(fact.choices) - set(topology.workers):
        return f"it may be for {fact.choices}"
    if topology.judge is None and fact.agent in fact.choices and len(fact.choices) > 2:
        return f"{fact.agent} may vote for its own proposal"
    return ""


@register_check("stage_left")
def votes_are_counted(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A debate's result names the winner by the judge or most votes; after a tie, the first side."""
    topology = seen.compiled.spec.topology
    if fact.stage != "fan_in" or not isinstance(topology, DebateTopology) or topology.aggregator is not None:
        return ""
    reached = after.stages[fact.stage]
    said = seen.outputs.get(reached.output_ref)
    if fact.outcome != "passed" or said is None or reached.edited_ref:
        return ""
    steps = [step for step in after.steps.values() if step.stage == "fan_out" and step.turn and step.turn.choices]
    found = (seen.outputs.get(step.output_ref) for step in steps if step.status == "done")
    votes = [str(one["winner"]) for one in found if one is not None and "winner" in one]
    most = max((votes.count(name) for name in topology.workers), default=0)
    winner = next(name for name in topology.workers if votes.count(name) == most)
    told = f"The proposal of {winner} won with {most} of {len(votes)} votes"
    wanted = f"The verdict is for {winner}." if topology.judge else told
    return "" if said["text"].startswith(wanted) else f"it says {said['text'][:60]!r}, the votes are {votes}"


@register_check("child_spawned")
def teams_are_those_of_their_leads(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A nested run belongs to a team's lead, and stays within the team's own caps."""
    root = seen if after.family.lineage is None else seen.family[after.family.lineage.root_run_id]
    topology = root.compiled.spec.topology
    if fact.purpose != "nested" or not isinstance(topology, HierarchicalTopology):
        return ""
    agent = after.steps[fact.step_id].agent
    team = topology.teams.get(agent)
    if team is None:
        return f"{agent} leads no team"
    cap = team.run_usd_micros
    return (
        f"it may spend {fact.reserved_usd_micros}, its team {cap}"
        if cap is not None and fact.reserved_usd_micros > cap
        else ""
    )


def _side_speaks_twice() -> AbstractContextManager[None]:
    """Each side has two turns in a round."""
    kept = debate._round
    return planting.attribute(debate, "_round", lambda *given: [turn for turn in kept(*given) for _ in range(2)])


def _round_missed() -> AbstractContextManager[None]:
    """The engine skips the last round."""
    kept = debate._topology

    def fewer(work: Any) -> Any:
        topology = kept(work)
        return topology.model_copy(update={"rounds": max(1, topology.rounds - 1)})

    return planting.attribute(debate, "_topology", fewer)


def _votes_uncounted() -> AbstractContextManager[None]:
    """The first side wins, against any votes."""
    return planting.attribute(debate, "_leading_sides", lambda topology, votes: [topology.workers[0]])


def _artifacts_left_out() -> AbstractContextManager[None]:
    """The worker of an item does not read the items before it."""
    kept = sop._list_next_turns
    return planting.attribute(
        sop, "_list_next_turns", lambda work, steps: [replace(turn, hears=()) for turn in kept(work, steps)]
    )


def _team_without_cap() -> AbstractContextManager[None]:
    """A team has its whole share, above its own cap."""
    return planting.attribute(
        children, "_own_cap", lambda work, step: work.compiled_fabric.spec.policy.budget.run_usd_micros
    )


TURN_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "side_speaks_twice": _side_speaks_twice,
    "round_missed": _round_missed,
    "votes_uncounted": _votes_uncounted,
    "artifacts_left_out": _artifacts_left_out,
    "team_without_cap": _team_without_cap,
}
"""Plants by name."""

SHARE = 0.16
"""Share of fabrics without teams that debate or follow a procedure."""
TALKING = 0.45
"""Share of fabrics with teams that have one which takes turns by a graph, or passes its brief on."""
REFUSED = 0.4
"""Share of those that retry a team whose result a guardrail refuses."""
PLANNED = ("planner", "plan", "plan_critic")
ROOM = 16


def draw_topology(tree: JSON, number: int, *, lead: bool) -> None:
    """Give some fabrics another kind of topology, in place. ``lead``: the first worker leads a team."""
    topology, workers = tree["topology"], tree["topology"]["workers"]
    rng = Random(f"shape {number}")  # noqa: S311 - a simulation is to be repeatable
    if "kind" in topology:
        return
    if lead and len(workers) > 1:
        _add_leaders(tree, rng, number)
        _draw_refusal(tree, Random(f"refused {number}"))  # noqa: S311 - the same
    elif rng.random() < SHARE:
        made = _debate(tree, workers, rng) if len(workers) > 1 and rng.random() < 0.6 else _procedure(workers, rng)
        roles = {name: held for name, held in topology.items() if name not in PLANNED}
        tree["topology"] = {**roles, **made}
        tree["policy"] = without_ways(tree["policy"])
        _roomy(tree["policy"])


def _roomy(policy: JSON) -> None:
    """Give the plan enough room for the work."""
    policy["limits"]["plan_branches"] = ROOM


def _planner(tree: JSON, lead: str) -> str:
    _in_json(tree, lead)
    _without_data(tree, lead)
    return lead


def _plan(workers: list[str]) -> JSON:
    """Return a plan with a brief for each worker."""
    briefs = [{"agent": name, "title": f"Part of {name}", "instructions": "Say what bears on it."} for name in workers]
    return {"goal": "Answer the brief.", "briefs": briefs, "exit_criteria": ["The brief is answered."]}


def _in_json(tree: JSON, *names: str) -> None:
    for agent in tree["agents"]:
        if agent["name"] in names:
            agent["answers"] = "json"


def _add_agent(tree: JSON, name: str) -> str:
    """Return another agent like the first one."""
    if all(agent["name"] != name for agent in tree["agents"]):
        like = tree["agents"][0]
        more = {"name": name, "instructions": f"You are {name}.", "answers": "json"}
        tree["agents"].append(
            {key: held for key, held in like.items() if key not in ("persona", "output_schema")} | more
        )
    return name


def _debate(tree: JSON, sides: list[str], rng: Random) -> JSON:
    found: JSON = {"kind": "debate", "workers": sides, "rounds": rng.choice((1, 2, 2, 3))}
    found["critics"] = [_add_agent(tree, "sceptic")] if rng.random() < 0.4 else []
    if rng.random() < 0.5:
        found["judge"] = _add_agent(tree, "arbiter")
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


def _add_leaders(tree: JSON, rng: Random, number: int) -> None:
    """Let the first worker lead the others, and in some fabrics the second those behind it."""
    first, *others = tree["topology"]["workers"]
    teams = {first: _team(tree, first, others, rng)}
    if len(others) > 1 and rng.random() < 0.4 and "kind" not in teams[first]["topology"]:
        teams[others[0]] = _team(tree, others[0], others[1:], rng)
    talks = Random(f"talks {number}")  # noqa: S311 - of its own, so that teams that do not talk stay as they were
    if talks.random() < TALKING:
        last = list(teams)[-1]  # No worker in it leads another.
        _let_talk(tree, teams[last]["topology"], talks)
    tree["topology"] = {**tree["topology"], "kind": "hierarchical", "teams": teams}
    if rng.random() < 0.15 and "retry_layers" not in tree["policy"]:
        # Less room for runs than for their agents, so that the family is full first.
        tree["policy"]["limits"] |= {"fan_out_inline_max": 1, "sub_agents_alive": 2, "sub_agents_spawned": 64}


def _draw_refusal(tree: JSON, rng: Random) -> None:
    """Let all workers book in some fabrics, and retry a team whose result is refused where possible."""
    if rng.random() >= REFUSED or "retry_layers" in tree["policy"]:
        return
    if all(tool["name"] != BOOK for tool in tree["tools"]):
        book = {"name": BOOK, "effect": "mutating", "compensation": CANCEL}
        tree["tools"] += [book, {"name": CANCEL, "effect": "idempotent"}]
    for agent in tree["agents"]:
        if agent["name"] in tree["topology"]["workers"]:
            agent["tools"] = [BOOK]
    gates, again = tree["gates"], {"reaction": "retry", "times": rng.choice((1, 2))}
    gates["guardrails"] = [*(gates.get("guardrails") or ()), {"places": ["fan_out"], "patterns": [UNLUCKY]}]
    tree["decision_table"]["unsafe_output"] = {tier: {"rungs": [again, {"reaction": "surface"}]} for tier in Tier}


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
    """Let the team take turns by a graph, or pass its brief on. Its planner now plans for its members."""
    kept = {name: held for name, held in topology.items() if name in ("workers", "aggregator", "planner")}
    made = conversing.draw_team_turns(rng, tree, kept["workers"])
    topology.clear()
    topology |= {**kept, **made}
    tree["policy"]["limits"]["hops"] = rng.choice((1, 2, 5))
    _roomy(tree["policy"])


def _without_data(tree: JSON, name: str) -> None:
    for agent in tree["agents"]:
        if agent["name"] == name:
            agent.pop("output_schema", None)
