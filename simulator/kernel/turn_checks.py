"""What must be true of debates, procedures and teams: invariants as in ``invariants.py`` (semantics.md 5), by counts of their own over what was journaled."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fabric.core.envelope import Event
from fabric.core.run import Run
from fabric.core.spec_debate import DebateTopology
from fabric.core.spec_hierarchical import HierarchicalTopology
from fabric.core.spec_sop import SopTopology
from simulator.kernel.seen import Seen, on


@on("turn_opened", "replanned")
def turns_in_order(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Items are done in their order, and rounds are held in theirs: nobody speaks twice in one, and none begins while another goes on."""
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


def _over(seen: Seen, branches: range) -> bool:
    steps = {step.branch: step.status for step in seen.run.steps.values() if step.stage == "fan_out"}
    return all(steps.get(branch) in ("done", "failed") for branch in branches)


def _done(seen: Seen, branch: int) -> bool:
    return any(
        step.branch == branch and step.status == "done" for step in seen.run.steps.values() if step.stage == "fan_out"
    )


def _item(seen: Seen, topology: SopTopology, fact: Any) -> str:
    number = fact.branch
    if number >= len(topology.procedure):
        return f"turn {number + 1} of {len(topology.procedure)} items"
    item = topology.procedure[number]
    if (fact.agent, fact.brief) != (item.agent, number):
        return f"{fact.agent} does item {fact.brief + 1}, item {number + 1} is {item.agent}'s"
    if not _over(seen, range(number)):
        return "it begins before the items before it are over"
    reads = range(1, number + 1) if item.reads is None else item.reads
    wanted = tuple(n - 1 for n in reads if _done(seen, n - 1))
    return "" if fact.hears == wanted else f"it reads {fact.hears}, its item says {wanted}"


def _turn(seen: Seen, topology: DebateTopology, fact: Any) -> str:
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
    if not _over(seen, range(fact.branch - len(wave) + 1)):
        return "it begins while the one before goes on"
    if what == "side" and len(waves) > 1 and set(fact.hears) != _last_round(seen, waves[:-1], sides, critics):
        return f"it hears {fact.hears}, and not all of the round before"
    return _choices(topology, fact) if what == "end" else ""


def _what(brief: int, sides: int, critics: int) -> str:
    return "side" if brief < sides else "critic" if brief < sides + critics else "end"


def _waves(turns: list[Any], sides: int, critics: int) -> list[list[Any]]:
    """Turns that belong together: a round's proposals, its criticism, the end."""
    found: list[list[Any]] = []
    for one in turns:
        what = _what(one.brief, sides, critics)
        again = bool(found) and found[-1][-1].brief >= one.brief and what != "end"
        if not found or again or _what(found[-1][0].brief, sides, critics) != what:
            found.append([])
        found[-1].append(one)
    return found


def _last_round(seen: Seen, waves: list[list[Any]], sides: int, critics: int) -> set[int]:
    last = waves[-1:]
    if _what(waves[-1][0].brief, sides, critics) == "critic":
        last = waves[-2:]
    return {one.branch for wave in last for one in wave if _done(seen, one.branch)}


def _choices(topology: DebateTopology, fact: Any) -> str:
    if not fact.choices or set(fact.choices) - set(topology.workers):
        return f"it may be for {fact.choices}"
    if topology.judge is None and fact.agent in fact.choices and len(fact.choices) > 2:
        return f"{fact.agent} may vote for its own proposal"
    return ""


@on("stage_left")
def votes_are_counted(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What a debate passes on names whom the judge, or most votes, were for; of a tie who stands first."""
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


@on("child_spawned")
def teams_are_those_of_their_leads(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A nested run is a worker's who leads a team, and has no more than that team's own caps."""
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
