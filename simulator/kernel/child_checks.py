"""What must be true of families: invariants as in ``invariants.py``, over the journals of a parent and its children together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fabric.core.envelope import Event
from fabric.core.run import Run
from fabric.core.topologies.slices import is_slice
from simulator.kernel.changes import Change
from simulator.kernel.seen import Seen, on

STOP_US = 900 * 1_000_000
"""How long after it was told to stop a child may still be waited for: restarts, leases and commits that are lost take their time."""


@on("child_spawned")
def spawned_once(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A child begins once, one level deeper, within the deadline of the stage that it works for."""
    if fact.child_id in seen.children:
        return f"child {fact.child_id} was spawned before"
    seen.children[fact.child_id] = fact
    if fact.depth != seen.run.depth + 1:
        return f"level {fact.depth} below {seen.run.depth}"
    most = seen.compiled.spec.policy.limits.recursion
    if fact.depth > most:
        return f"level {fact.depth}, at most {most}"
    end = min(seen.stage_deadline, seen.run_deadline)
    return "" if fact.deadline_at <= end else "its deadline is after that of its parent's stage"


@on("lineage_pinned")
def child_is_what_its_parent_spawned(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A child's parent knows it: the same command, the same cap, the same briefs, its level and deadline."""
    parent = seen.family.get(fact.parent_run_id)
    spawned = parent.children.get(seen.run_id) if parent else None
    if spawned is None:
        return "no run spawned it"
    seen.cap = fact.cap_usd_micros
    seen.compiled = seen.compiled.within(fact.topology)
    told = (fact.parent_command, fact.cap_usd_micros, fact.briefs, after.depth, after.deadline_at)
    given = (spawned.command_id, spawned.reserved_usd_micros, spawned.briefs, spawned.depth, spawned.deadline_at)
    return "" if told == given else f"it was given {given} and took {told}"


@on("stage_entered", "step_opened", "turn_opened")
def caps_hold_over_the_tree(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No more agents are started in a run and all below it, and none more are at work at once, than the root's limits say."""
    if fact.kind == "turn_opened":
        opened: tuple[str, ...] = (fact.agent,) if fact.first else ()
    elif fact.stage == "fan_out":
        opened = fact.agents if fact.kind == "stage_entered" else (fact.agent,)
    else:
        return ""
    seen.agents_started += sum(not is_slice(agent) for agent in opened)
    lineage = after.family.lineage
    root = seen if lineage is None else seen.family[lineage.root_run_id]
    limits = root.compiled.spec.policy.limits
    started = sum(one.agents_started for one in _tree(root))
    if started > limits.sub_agents_spawned:
        return f"{started} agents were started in the tree of {root.run_id}, at most {limits.sub_agents_spawned}"
    alive = _at_work(root, seen, after)
    if alive > limits.sub_agents_alive:
        return f"{alive} agents are at work in the tree of {root.run_id}, at most {limits.sub_agents_alive}"
    return ""


def _tree(seen: Seen) -> Iterator[Seen]:
    yield seen
    for child_id in seen.children:
        yield from _tree(seen.family[child_id])


def _at_work(one: Seen, seen: Seen, after: Run) -> int:
    """Agents at work in a run and below it; what was told to stop is left out. ``after``: the run ``seen`` as it is now."""
    run = after if one is seen else one.run
    if run.terminal:
        return 0
    steps = (step for step in run.steps.values() if step.stage == "fan_out" and step.status == "active")
    own = sum(not is_slice(step.agent) for step in steps)
    below = (child.fact.child_id for child in run.family.alive.values() if not child.let_go)
    return own + sum(_at_work(one.family[child_id], seen, after) for child_id in below)


@on("child_let_go")
def told_to_stop(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A child that is let go of is told so in the same transaction, unless it has ended."""
    seen.stopping[fact.child_id] = event.at
    child, wanted = seen.family[fact.child_id], f"{fact.how}_requested"
    told = any(given.kind == wanted for given in child.given.values())
    return "" if told or child.run.terminal else "its child was not told"


@on("run_paused", "run_resumed")
def held_with_its_parent(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run's children are told in the same transaction when it is paused, and when it goes on."""
    wanted = "pause_requested" if fact.kind == "run_paused" else "resume_requested"
    for command_id, child in after.family.alive.items():
        below, input_id = seen.family[child.fact.child_id], f"parent:{command_id}:{event.seq}"
        told = below.given.get(input_id)
        if child.let_go is None and (told is None or told.kind != wanted) and not below.run.terminal:
            return f"child {child.fact.child_id} was not told"
    return ""


@on("child_quarantined")
def asked_as_its_child_asks(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A parent asks about a child's own question, the one that the child asked."""
    child = seen.family[fact.child_id]
    return "" if fact.escalation_id in child.questions else "its child asked nothing of the kind"


@on("escalation_opened")
def asked(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Keeps which questions a run asked."""
    seen.questions.add(fact.escalation_id)
    return ""


@on("mutation_taken_over")
def handed_up_as_it_was(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What a parent takes over is what its child had done and not undone, and is taken over once."""
    child = seen.family[fact.child_id]
    change = child.changes.by_key.get(fact.key)
    if change is None:
        return "its child never intended it"
    if change.status == "handed_up":
        return "it was handed up before"
    status = _STATUS.get(change.status, change.status)
    if status != fact.status:
        return f"it says {fact.status}, and the child's journal says {change.status}"
    taken = Change(fact.tool, fact.effect, carry_over=False, status=change.status)
    _locate(taken, f"{fact.command_id}/{fact.of_command}")
    if taken.brief != _brief(child, fact.of_command, fact.step_id):
        return f"its child did it for another brief than {taken.brief}"
    seen.changes.by_key.pop(fact.key, None)  # One that was handed down comes back as the newest.
    seen.changes.by_key[fact.key] = taken
    change.status = "handed_up"
    return ""


@on("child_spawned")
def handed_down_as_it_was(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What goes with a child is what children and earlier tries left standing here of the very briefs that it does, all of it; it stands here no more."""
    branch = _branch(fact.step_id)
    before = seen.tried.get(branch, "")
    seen.tries_begun[fact.child_id] = fact.child_id if before is None else before
    seen.tried[branch] = None
    seen.key_epochs[fact.child_id] = epoch_of_keys(seen, int(fact.step_id.split(".")[2][1:]))
    expected = tuple(key for key, one in seen.changes.by_key.items() if one.standing and _does(fact, one))
    seen.handed_down[fact.child_id] = {key: seen.changes.by_key[key].status for key in expected}
    for key in expected:
        seen.changes.by_key[key].status = "handed_down"
    return "" if fact.handed_down == expected else f"it has {fact.handed_down}, and what stands here is {expected}"


@on("child_answered")
def tried_well_or_not(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Whether the next try of a branch meets what this one did, or something under its keys was undone."""
    spent = _spent(seen.family[fact.child_id])
    if spent and not fact.keys_spent:
        return "it or one below it has undone a change, and does not say so"
    seen.keys_spent |= fact.keys_spent
    if not fact.late and not fact.keys_spent:
        seen.tried[_branch(fact.step_id)] = seen.tries_begun[fact.child_id]
    return ""


@on("replanned")
def keys_name_another_epoch(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Keeps which epoch a child's keys name: the new one where something was undone before it."""
    if seen.keys_spent or any(one.unwound for one in seen.changes.by_key.values()):
        seen.keys_epoch = fact.epoch
    return ""


def epoch_of_keys(seen: Seen, epoch: int) -> int:
    """The epoch that keys of a run name; a root's is the one that it is in."""
    return epoch if seen.run.family.lineage is None else seen.keys_epoch


@on("mutation_inherited")
def inherited_as_it_stood(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A child begins with what its parent handed down to it, as it stood there."""
    if _handed_down(seen).pop(fact.key, None) != fact.status:
        return f"its parent did not hand {fact.tool} down as {fact.status}"
    change = Change(fact.tool, fact.effect, carry_over=fact.carry_over, status=fact.status)
    _locate(change, fact.of_command)
    seen.changes.by_key[fact.key] = change
    return ""


@on("mutation_intended")
def nobody_else_has_the_key(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What stands, or was undone, under a key in one run of a family goes out in no other one, but for what a run writes to a memory of its own."""
    if seen.compiled.spec.in_journal(fact.tool):
        return ""
    others = (one.changes.by_key.get(fact.key) for run_id, one in seen.family.items() if run_id != seen.run_id)
    found = [one for one in others if one is not None and (one.standing or one.undone)]
    return f"{fact.tool} is {found[0].status} under this key in another run of the family" if found else ""


@on("stage_entered")
def begins_with_all_of_it(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A child does nothing before it has what was handed down to it."""
    left = _handed_down(seen)
    return f"it was handed {', '.join(left)} and has not taken it" if left else ""


def _handed_down(seen: Seen) -> dict[str, str]:
    lineage = seen.run.family.lineage
    return {} if lineage is None else seen.family[lineage.parent_run_id].handed_down.get(seen.run_id, {})


def _locate(change: Change, command: str) -> None:
    """Keeps for which brief of the run a child of it, or an earlier try, made a change, from the path to who did."""
    own, _, below = command.partition("/")
    stage, branch, change.epoch, _ = own.split(".")[:4]
    slice_ = re.fullmatch(r"b(\d+)/(before:)?(.+)", below)
    if stage == "fan_out":
        change.brief = int(branch if slice_ is None else slice_[1])
        change.in_team = bool(below) if slice_ is None else "/" in slice_[3]


def _brief(child: Seen, command: str, step_id: str) -> int:
    """Which of its parent's briefs a child's command was for."""
    lineage = child.run.family.lineage
    if lineage is None or lineage.purpose != "slice":
        return int(step_id.split(".")[1])
    own = command.partition("/")[2].removeprefix("before:")
    return lineage.briefs[int(own.split(".")[1])]


def _does(fact: Any, one: Change) -> bool:
    """Whether the child that was spawned does again what a child of the run, or an earlier try of it, did."""
    same = one.brief in fact.briefs and one.epoch == fact.step_id.split(".")[2]
    return same and (one.in_team or fact.purpose == "slice")


def _spent(seen: Seen) -> bool:
    """Whether a run or one below it has undone a change, of those that it does not keep to itself."""
    own = seen.compiled.spec.in_journal
    here = any(one.undone and not own(one.tool) for one in seen.changes.by_key.values())
    return here or any(_spent(seen.family[child_id]) for child_id in seen.children)


def _branch(step_id: str) -> str:
    return step_id.rpartition(".r")[0]


_STATUS = {"compensation_skipped": "skipped", "compensation_abandoned": "abandoned", "stays": "abandoned"}
"""What the engine calls what is not undone, by what these checks call it."""


@on("run_ended", "replanned")
def nothing_stays_with_a_child(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No change stands in a child that has answered: all are this run's, but for what it wrote to a memory of its own."""
    own = seen.compiled.spec.in_journal
    for child_id in seen.ended_children:
        changes = seen.family[child_id].changes.by_key.values()
        left = [one.tool for one in changes if one.standing and not own(one.tool)]
        if left and not seen.family[child_id].blind:
            return f"child {child_id} still has {left}"
    return ""


@on("child_answered")
def answered_once_with_what_it_cost(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A child answers once, after its end, with what its own journal counts; and soon, if it was told to stop."""
    child = seen.family[fact.child_id]
    if fact.child_id in seen.ended_children:
        return "it had answered"
    seen.ended_children.add(fact.child_id)
    if not child.run.terminal or child.run.state != fact.state:
        return f"it says {fact.state}, and the child is {child.run.state}"
    if child.blind and child.run.started_at:
        reserved = seen.children[fact.child_id].reserved_usd_micros
        return "" if fact.cost_usd_micros == reserved else "a child that nobody could fold costs what was reserved"
    if child.spent != fact.cost_usd_micros:
        return f"it says {fact.cost_usd_micros} micro-dollars, the child's journal says {child.spent}"
    if seen.put_away or _asks_people(child):
        return ""
    late = event.at - seen.stopping.get(fact.child_id, event.at)
    return f"it ended {late} us after it was told to stop" if late > STOP_US else ""


def _asks_people(seen: Seen) -> bool:
    """Whether a run's end may wait for a person: it, or one below it, had something to undo, or was quarantined."""
    return bool(seen.put_away or seen.changes.by_key) or any(_asks_people(seen.family[one]) for one in seen.children)


@on("run_quarantined")
def put_away(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Keeps that a person had to say something about the run."""
    seen.put_away = True
    return ""


@on("run_ended")
def no_child_outlives_its_parent(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run ends after all its children, each of them settled; but for one that is ended without being folded."""
    seen.blind = seen.run.state == "quarantined"
    if seen.blind:
        return ""
    alive = [child_id for child_id in seen.children if not seen.family[child_id].run.terminal]
    if alive:
        return f"its children are alive: {', '.join(alive)}"
    open_ = set(seen.children) - seen.ended_children
    if open_:
        return f"its children are not settled: {', '.join(sorted(open_))}"
    if seen.cap is not None and seen.spent > seen.cap + seen.overrun:
        return f"it spent {seen.spent} micro-dollars of a slice of {seen.cap}"
    return ""
