"""Checks families in the simulator, over the journals of a parent and its children together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.decision.slices import is_slice
from fabric.core.events.envelope import Event
from fabric.core.state.run import Run
from simulator.rules.facts.journals import WatchedRun, register_check
from simulator.rules.facts.spending import Change

STOP_US = 900 * 1_000_000
"""Longest time for which a child may continue after a stop: restarts, leases and lost commits take time."""


@register_check("child_spawned")
def spawned_once(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A child begins once, one level deeper, within the deadline of its parent's stage."""
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


@register_check("lineage_pinned")
def child_is_what_its_parent_spawned(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A child's start matches its parent's record: command, cap, briefs, level and deadline."""
    parent = seen.family.get(fact.parent_run_id)
    spawned = parent.children.get(seen.run_id) if parent else None
    if spawned is None:
        return "no run spawned it"
    seen.cap = fact.cap_usd_micros
    seen.compiled = seen.compiled.select_topology(fact.topology)
    told = (fact.parent_command, fact.cap_usd_micros, fact.briefs, after.depth, after.deadline_at)
    given = (spawned.command_id, spawned.reserved_usd_micros, spawned.briefs, spawned.depth, spawned.deadline_at)
    return "" if told == given else f"it was given {given} and took {told}"


@register_check("stage_entered", "step_opened", "turn_opened")
def caps_hold_over_the_tree(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The agents started in a family, and those at work at once, stay within the root's limits."""
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


def _tree(seen: WatchedRun) -> Iterator[WatchedRun]:
    yield seen
    for child_id in seen.children:
        yield from _tree(seen.family[child_id])


def _at_work(one: WatchedRun, seen: WatchedRun, after: Run) -> int:
    """Return the number of agents at work in a run and below it, without stopped children. ``after``: ``seen``'s new
    state.
    """
    run = after if one is seen else one.run
    if run.terminal:
        return 0
    steps = (step for step in run.steps.values() if step.stage == "fan_out" and step.status == "active")
    own = sum(not is_slice(step.agent) for step in steps)
    below = (child.fact.child_id for child in run.family.alive.values() if not child.let_go)
    return own + sum(_at_work(one.family[child_id], seen, after) for child_id in below)


@register_check("child_let_go")
def told_to_stop(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A parent that drops a child stops it in the transaction that drops it, unless it has ended."""
    seen.stopping[fact.child_id] = event.at
    child, wanted = seen.family[fact.child_id], f"{fact.how}_requested"
    told = any(given.kind == wanted for given in child.given.values())
    return "" if told or child.run.terminal else "its child was not told"


@register_check("run_paused", "run_resumed")
def held_with_its_parent(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run that is paused or resumed passes this on to its children in one transaction."""
    wanted = "pause_requested" if fact.kind == "run_paused" else "resume_requested"
    for command_id, child in after.family.alive.items():
        below, input_id = seen.family[child.fact.child_id], f"parent:{command_id}:{event.seq}"
        told = below.given.get(input_id)
        if child.let_go is None and (told is None or told.kind != wanted) and not below.run.terminal:
            return f"child {child.fact.child_id} was not told"
    return ""


@register_check("child_quarantined")
def asked_as_its_child_asks(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A parent opens a child's review only if the child asked for it."""
    child = seen.family[fact.child_id]
    return "" if fact.review_id in child.reviews else "its child asked nothing of the kind"


@register_check("review_opened")
def record_review(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record a run's reviews."""
    seen.reviews.add(fact.review_id)
    return ""


@register_check("mutation_taken_over")
def handed_up_as_it_was(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A parent takes over only standing changes of its child, each once."""
    child = seen.family[fact.child_id]
    change = child.changes.by_key.get(fact.key)
    if change is None:
        return "its child never intended it"
    if change.status == "handed_up":
        return "it was handed up before"
    status = _STATUS.get(change.status, change.status)
    if status != fact.status:
        return f"it says {fact.status}, and the child's journal says {change.status}"
    seen.changes.by_key[fact.key] = Change(fact.tool, fact.effect, carry_over=False, status=change.status)
    change.status = "handed_up"
    return ""


@register_check("child_answered")
def says_whether_it_changed_the_world(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A child reports changes to the world exactly if it, or a run below it, made some."""
    changed = _changed_the_world(seen.family[fact.child_id])
    return "" if fact.changed_world == changed else f"it says {fact.changed_world}, and its journal says {changed}"


@register_check("reaction_decided")
def none_that_changed_the_world_is_tried_again(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """No step is tried again by itself, and none is handed over, whose child run changed the world."""
    if fact.reaction not in ("retry", "retry_node") and not (fact.reaction == "handover" and fact.step_id):
        return ""
    stage = fact.scope.partition(":")[2]
    failed = (step.id for step in seen.run.steps.values() if step.stage == stage and step.status == "failed")
    again = {fact.step_id} if fact.step_id else set(failed)
    children = (spawned for spawned in seen.children.values() if spawned.step_id in again)
    found = [spawned.child_id for spawned in children if _changed_the_world(seen.family[spawned.child_id])]
    return f"child {found[0]} changed the world" if found else ""


@register_check("mutation_intended")
def keys_are_unique(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A key that stands, or was undone, in one run is used by no other run of the family.

    A run's own memories are excepted.
    """
    if seen.compiled.spec.in_journal(fact.tool):
        return ""
    others = (one.changes.by_key.get(fact.key) for run_id, one in seen.family.items() if run_id != seen.run_id)
    found = [one for one in others if one is not None and (one.standing or one.undone)]
    return f"{fact.tool} is {found[0].status} under this key in another run of the family" if found else ""


def _changed_the_world(seen: WatchedRun) -> bool:
    """Return True if a run or one below it changed the world, or may have, undone or not.

    Changes of its own memories do not count. An unreadable run counts as changed from its start on.
    """
    if seen.blind and seen.run.started_at:
        return True
    own = seen.compiled.spec.in_journal
    here = any(one.status != "not_executed" and not own(one.tool) for one in seen.changes.by_key.values())
    return here or any(_changed_the_world(seen.family[child_id]) for child_id in seen.children)


_STATUS = {"compensation_skipped": "skipped", "compensation_abandoned": "abandoned", "stays": "abandoned"}
"""These checks' word for each of the engine's reasons why a change was not undone."""


@register_check("run_ended", "replanned")
def nothing_stays_with_a_child(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A child that has answered keeps no change. Its parent has all of them, except those of the child's own
    memories.
    """
    own = seen.compiled.spec.in_journal
    for child_id in seen.ended_children:
        changes = seen.family[child_id].changes.by_key.values()
        left = [one.tool for one in changes if one.standing and not own(one.tool)]
        if left and not seen.family[child_id].blind:
            return f"child {child_id} still has {left}"
    return ""


@register_check("child_answered")
def answered_once_with_what_it_cost(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A child answers once, after its end, with the costs of its own journal; and soon after a stop."""
    child = seen.family[fact.child_id]
    if fact.child_id in seen.ended_children:
        return "it had answered"
    seen.ended_children.add(fact.child_id)
    if not child.run.terminal or child.run.state != fact.state:
        return f"it says {fact.state}, and the child is {child.run.state}"
    if child.blind and child.run.started_at:
        reserved = seen.children[fact.child_id].reserved_usd_micros
        return "" if fact.cost_usd_micros == reserved else "a child that does not fold costs what was reserved"
    if child.spent != fact.cost_usd_micros:
        return f"it says {fact.cost_usd_micros} micro-dollars, the child's journal says {child.spent}"
    if seen.put_away or _asks_people(child):
        return ""
    late = event.at - seen.stopping.get(fact.child_id, event.at)
    return f"it ended {late} us after it was told to stop" if late > STOP_US else ""


def _asks_people(seen: WatchedRun) -> bool:
    """Return True if a run's end may wait for a person. It or a run below had changes to undo, or was quarantined."""
    return bool(seen.put_away or seen.changes.by_key) or any(_asks_people(seen.family[one]) for one in seen.children)


@register_check("run_quarantined")
def put_away(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record that a person had to decide about the run."""
    seen.put_away = True
    return ""


@register_check("run_ended")
def no_child_outlives_its_parent(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run ends after all its children, all of them settled. A run that ends without being folded is excepted."""
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
