"""Checks compensation in the simulator: calls that change the world. Has planted bugs too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

from fabric.core.decision.work import Work
from fabric.core.events.envelope import Event
from fabric.core.ladders import ladder
from fabric.core.reactions import unwinding
from fabric.core.sagas import handing_up, mutations
from fabric.core.state.run import Run, Step
from fabric.core.values.fingerprint import digest
from fabric.core.values.flow import RunState
from fabric.core.values.saga import STANDING, UNWINDS, Mutation, Status, Unwinds, build_key, undo_order
from simulator.cast.services import Service
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun, register_check
from simulator.rules.facts.spending import Change

CHANGING = ("mutating", "irreversible")


@register_check("mutation_intended")
def never_sent_again_blindly(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A call that may have been executed is repeated only if a person says so.

    One that cannot be undone is repeated only with an answer to its server.
    """
    changes, step = seen.changes, seen.run.steps[fact.step_id]
    before = changes.by_key.pop(fact.key, None)
    changes.by_key[fact.key] = Change(fact.tool, fact.effect, fact.carry_over)
    changes.by_key[fact.key].doubted = before is not None and before.doubtful
    changes.intended[fact.command_id] = (fact.key, fact.attempt)
    answered = seen.server_questions.get(fact.command_id, ("", 0, False))[2]
    word = answered or (step.approved and fact.effect == "mutating")
    if before is not None and before.doubtful and not word:
        return f"the outcome of {fact.tool} under this key is unknown, and it goes out again"
    if before is not None and before.status == "executed":
        return f"{fact.tool} was executed under this key, and goes out again"
    tool = seen.compiled.spec.tool(fact.tool)
    if tool.effect == "irreversible" and tool.approval == "required" and fact.command_id not in changes.approved:
        return f"no person let {fact.tool} pass"
    return "" if fact.effect == "irreversible" or fact.compensation else "it has no way back"


@register_check("call_issued")
def way_back_before_effect(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The journal has a call's compensation before the call goes out, under the key without the round."""
    if fact.call != "tool" or seen.compiled.spec.tool(fact.target).effect not in CHANGING:
        return ""
    if seen.changes.intended.get(fact.command_id) != (fact.key, fact.attempt):
        return "its way back is not in the journal"
    if fact.attempt > 1:
        return ""
    expected = _key(seen, seen.run.steps[fact.step_id], fact)
    return "" if fact.key == expected else "its key is another one than an earlier activation of its step would give it"


def _key(seen: WatchedRun, step: Step, fact: Any) -> str:
    """Return the key, computed anew by docs/specification/changes.md."""
    carried = seen.compiled.spec.tool(fact.target).carry_over
    scope = f"{step.stage}.{step.branch}" + ("" if carried else f".e{step.epoch}")
    records = [record for turn in step.history for record in turn.calls]
    last = next(n for n in range(len(records) - 1, -1, -1) if records[n].call_id == fact.call_id)
    same = {
        r.call_id
        for r in records[:last]
        if (r.tool, r.args_hash) == (fact.target, fact.args_hash) and r.state != "refused"
    }
    taken = {
        key
        for command, (key, _) in seen.changes.intended.items()
        if command.startswith(f"{step.id}.t") and command != fact.command_id
    }
    keys = (digest(seen.run_id, "mutation", scope, fact.target, fact.args_hash, number) for number in count(len(same)))
    return next(
        key for key in keys if key not in taken
    )  # An equal call that was asked about for less long left before.


@register_check("mutation_settled")
def settled_while_in_doubt(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The fate of a change is settled once."""
    change = seen.changes.by_key.get(fact.key)
    if change is None:
        return "it was never intended"
    before, change.status = change.status, str(fact.status)
    if change.doubted and change.status == "not_executed":
        return "an attempt before this one may have been executed"
    return "" if before in ("open", "unknown") else f"it was {before}"


@register_check("reconciliation_ended")
def doubt_is_ended_by_who_knows(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Apply the other side's finding to all attempts under the key."""
    change = seen.changes.by_key.get(fact.of_key)
    if change is None:
        return "it was never intended"
    change.doubted = change.doubted and fact.found == "unknown"
    return ""


# -- undoing ---------------------------------------------------------------------------------------------------------


@register_check("unwinding_started")
def undone_only_by_the_table(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run compensates only before a bad end or a replan."""
    seen.changes.purpose = fact.purpose
    if seen.run.pending:
        return f"calls are still out: {sorted(seen.run.pending)}"
    if fact.purpose == "replan":
        return ""
    ending = seen.run.ending
    rule = Unwinds.NO if ending is None else UNWINDS[ending.reaction]
    return "" if rule in (Unwinds.YES, Unwinds.UNLESS_POLICY) else "a run that ends like this undoes nothing"


@register_check("compensation_issued")
def newest_first(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """The newest standing change is compensated first, one at a time, and never one that was not executed."""
    changes = seen.changes
    # A change that was not executed needs no compensation any more, once no call about it is open.
    if changes.undoing not in ("", fact.of_key) and (changes.out or changes.by_key[changes.undoing].standing):
        return "another one is being undone"
    if fact.of_key != changes.newest():
        change = changes.by_key.get(fact.of_key)
        return f"it is not the newest: it is {change.status}" if change is not None else "it was never intended"
    changes.undoing, changes.out = fact.of_key, True
    return ""


@register_check("compensation_failed", "compensation_interrupted")
def none_is_out(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record the end of the attempt."""
    seen.changes.out = False
    return ""


@register_check("compensation_issued", "reconciliation_issued", "compensation_answered")
def errands_in_order(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Attempts of a compensation, or of a look-up, follow each other, and none follows its answer."""
    if fact.command_id in seen.answered:
        return "it had been answered"
    if fact.kind == "compensation_answered":
        seen.answered.add(fact.command_id)
        return ""
    before, seen.attempts[fact.command_id] = seen.attempts.get(fact.command_id, 0), fact.attempt
    return "" if fact.attempt == before + 1 else f"attempt {fact.attempt} after {before}"


@register_check("compensation_answered", "compensation_by_hand", "compensation_skipped", "compensation_abandoned")
def dealt_with(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A change that stays is named with its reason: impossible to undo, no answer, or stopped by an operator."""
    changes = seen.changes
    newest, change = changes.newest(), changes.by_key[fact.of_key]
    needless = fact.kind == "compensation_answered" and changes.undoing == fact.of_key and not change.standing
    changes.undoing, changes.out = "", False
    change.status = fact.kind
    if fact.of_key != newest and not needless:
        return "it is not the newest"
    if fact.kind == "compensation_skipped":
        return "" if change.effect == "irreversible" else "it can be undone"
    if fact.kind == "compensation_by_hand":
        return "" if change.answer == "respond" else "no person said so"
    if fact.kind == "compensation_abandoned":
        return "" if changes.terminated or change.answer == "expired" else "no person was asked"
    return ""


@register_check("compensation_failed")
def asked_when_stuck(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A compensation fails at most as often as the policy says before a review opens."""
    failures = after.saga.unwinding.current.failures if after.saga.unwinding and after.saga.unwinding.current else 0
    most = seen.compiled.spec.policy.saga.compensation_attempts
    return f"{failures} failures, at most {most}" if failures > most else ""


@register_check("review_opened", "review_decided", "terminate_accepted")
def answers_about_changes(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """Record people's answers about changes."""
    changes = seen.changes
    if fact.kind == "terminate_accepted":
        changes.terminated = True
    elif fact.kind == "review_opened":
        changes.items[fact.review_id] = (fact.item, fact.scope)
        if fact.item == "compensation":
            changes.by_key[fact.scope].asked = True
    else:
        item, scope = changes.items[fact.review_id]
        if item == "pre_action" and fact.verb in ("approve", "edit"):
            changes.approved.add(scope)
        if item == "compensation":
            changes.by_key[scope].answer = "expired" if fact.system else fact.verb
    return ""


@register_check("unwinding_omitted")
def said_what_stays(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run names every change that it leaves."""
    stays = [one.tool for one in reversed(seen.changes.by_key.values()) if one.standing]
    unread = seen.run.state is RunState.QUARANTINED and seen.damaged  # Then it names the changes that it can read.
    for one in seen.changes.by_key.values():
        one.status = "stays" if one.standing else one.status
    return "" if list(fact.stays) == stays or unread else f"what stays is {stays}"


@register_check("unwinding_finished", "run_ended", "replanned")
def nothing_left_to_undo(seen: WatchedRun, event: Event, fact: Any, after: Run) -> str:
    """A run ends badly, or replans, only if each standing change is named. An unreadable journal is excepted."""
    changes = seen.changes
    if fact.kind == "run_ended" and (seen.run.ending is None or UNWINDS[seen.run.ending.reaction] is Unwinds.NO):
        return ""
    if fact.kind == "run_ended" and seen.run.state is RunState.QUARANTINED and seen.damaged:
        return ""
    changes.purpose = "replan" if fact.kind == "replanned" else "" if fact.kind == "run_ended" else changes.purpose
    left = changes.newest()
    if fact.kind != "replanned":
        changes.purpose = ""
    return f"{changes.by_key[left].tool} stands: {changes.by_key[left].status}" if left else ""


def truth(seen: WatchedRun, service: Service) -> str:
    """Return a difference between an ended run's journal and the service's books; empty if they agree."""
    for key, run_id in service.done.items():
        if run_id != seen.run_id and key not in seen.changes.by_key:
            continue
        change = seen.changes.by_key.get(key)
        if change is None:
            return f"the service did {key}, and the journal has no intent of it"
        if change.status == "not_executed":
            return f"the service did {change.tool}, and the journal says that it was not executed"
        if change.status == "compensation_answered" and key not in service.cancelled:
            return f"the journal says that {change.tool} is undone, and it is not"
    for key in service.cancelled & set(seen.changes.by_key):
        if seen.changes.by_key[key].status in ("executed", "open"):
            return f"{seen.changes.by_key[key].tool} was undone, and the journal does not say so"
    return ""


def _never_in_doubt(mutation: Mutation | None) -> bool:
    return False


def _oldest_first(given: Iterable[Mutation], *, replan: bool) -> tuple[str, ...]:
    return undo_order(given, replan=replan)[::-1]


def _unexecuted_too(given: Iterable[Mutation], *, replan: bool) -> tuple[str, ...]:
    wanted = STANDING | {Status.NOT_EXECUTED}
    kept = [one for one in given if one.status in wanted and not (replan and one.carry_over)]
    return tuple(one.key for one in reversed(kept))


def _give_up(work: Work, current: Any, message: str) -> None:
    unwinding.abandon(work, current.key, message)


def _without_run(run_id: str, scope: str, tool: str, args_hash: str, ordinal: int) -> str:
    return build_key("", scope, tool, args_hash, ordinal)


def _with_round(step_id: str, *, carry_over: bool) -> str:
    return step_id


SAGA_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "mutation_resent": lambda: planting.attribute(mutations, "in_doubt", _never_in_doubt),
    "compensate_fifo": lambda: planting.attribute(unwinding, "undo_order", _oldest_first),
    "compensate_unexecuted": lambda: planting.attribute(unwinding, "undo_order", _unexecuted_too),
    "stuck_skipped_silently": lambda: planting.attribute(unwinding, "_open_compensation_review", _give_up),
    "children_share_keys": lambda: planting.attribute(mutations, "build_key", _without_run),
    "changed_and_tried_again": lambda: planting.attribute(ladder, "CHILD_CHANGED_WORLD", {}),
    "change_not_said": lambda: planting.attribute(handing_up, "changed_world", lambda work: False),
    "key_with_round": lambda: planting.attribute(mutations, "read_scope", _with_round),
}
"""Plants by name."""
