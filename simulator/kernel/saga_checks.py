"""What must be true of calls that change the world, and of undoing them: invariants as in ``invariants.py``."""

from __future__ import annotations

from itertools import count
from typing import Any

from fabric.core.envelope import Event
from fabric.core.fingerprint import digest
from fabric.core.flow import RunState
from fabric.core.run import Run, Step
from fabric.core.saga import UNWINDS, Unwinds
from simulator.kernel.changes import Change
from simulator.kernel.child_checks import epoch_of_keys
from simulator.kernel.seen import Seen, on
from simulator.kernel.services import Service

CHANGING = ("mutating", "irreversible")


@on("mutation_intended")
def never_sent_again_blindly(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A call that may have been executed goes out again only by a person's word.

    One that cannot be undone goes out again only with an answer to its server.
    """
    changes, step = seen.changes, seen.run.steps[fact.step_id]
    before = changes.by_key.pop(fact.key, None)
    changes.by_key[fact.key] = Change(fact.tool, fact.effect, fact.carry_over)
    changes.by_key[fact.key].doubted = before is not None and before.doubtful
    changes.intended[fact.command_id] = (fact.key, fact.attempt)
    answered = seen.server_questions.get(fact.command_id, ("", 0, False))[2]
    word = answered or (step.approved and fact.effect == "mutating")
    if before is not None and before.doubtful and not word:
        return f"nobody knows what became of {fact.tool} under this key, and it goes out again"
    if before is not None and before.status == "executed":
        return f"{fact.tool} was executed under this key, and goes out again"
    tool = seen.compiled.spec.tool(fact.tool)
    if tool.effect == "irreversible" and tool.approval == "required" and fact.command_id not in changes.approved:
        return f"nobody let {fact.tool} pass"
    return "" if fact.effect == "irreversible" or fact.compensation else "it has no way back"


@on("call_issued")
def way_back_before_effect(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Before a call that changes the world its way back is in the journal, under the key that leaves out the round."""
    if fact.call != "tool" or seen.compiled.spec.tool(fact.target).effect not in CHANGING:
        return ""
    if seen.changes.intended.get(fact.command_id) != (fact.key, fact.attempt):
        return "its way back is not in the journal"
    if fact.attempt > 1:
        return ""
    expected = _key(seen, seen.run.steps[fact.step_id], fact)
    return "" if fact.key == expected else "its key is another one than an earlier activation of its step would give it"


def _key(seen: Seen, step: Step, fact: Any) -> str:
    """The key by semantics.md 10, worked out anew."""
    carried = seen.compiled.spec.tool(fact.target).carry_over
    begins, scope = _place(seen, step.stage, step.branch, epoch_of_keys(seen, step.epoch), carried=carried)
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
    keys = (digest(begins, "mutation", scope, fact.target, fact.args_hash, number) for number in count(len(same)))
    return next(
        key for key in keys if key not in taken
    )  # An equal call that was asked about for less long left before.


def _place(seen: Seen, stage: str, branch: int, epoch: int, *, carried: bool) -> tuple[str, str]:
    """What keys begin with in a run, and the place of a branch: the way down from its root, without rounds. A slice's branches are its parent's. ``carried``:
    what a replan of this very run leaves standing.
    """
    lineage = seen.run.family.lineage
    own = f"{stage}.{branch}" if carried else f"{stage}.{branch}.e{epoch}"
    if lineage is None:
        return seen.run_id, own
    parent = seen.family[lineage.parent_run_id]
    over, epoch = parent.children[seen.run_id].step_id.split(".")[1], parent.key_epochs[seen.run_id]
    again = parent.tries_begun[seen.run_id]
    tag = f"~{again}" if again else ""
    if lineage.purpose == "slice":
        begins, place = _place(parent, stage, lineage.briefs[branch], epoch, carried=False)
        return begins + tag, place
    return "/".join(_place(parent, "fan_out", int(over), epoch, carried=False)) + tag, own


@on("mutation_settled")
def settled_while_in_doubt(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What is known of a change is learned once."""
    change = seen.changes.by_key.get(fact.key)
    if change is None:
        return "it was never intended"
    before, change.status = change.status, str(fact.status)
    if change.doubted and change.status == "not_executed":
        return "an attempt before this one may have been executed"
    return "" if before in ("open", "unknown") else f"it was {before}"


@on("reconciliation_ended")
def doubt_is_ended_by_who_knows(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What the other side says is of all attempts under the key."""
    change = seen.changes.by_key.get(fact.of_key)
    if change is None:
        return "it was never intended"
    change.doubted = change.doubted and fact.found == "unknown"
    return ""


# -- undoing -----------------------------------------------------------------------------------------------------------


@on("unwinding_started")
def undone_only_by_the_table(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A run undoes what it did before a bad end or a replan, and not otherwise."""
    seen.changes.purpose = fact.purpose
    if seen.run.pending:
        return f"calls are still out: {sorted(seen.run.pending)}"
    if fact.purpose == "replan":
        return ""
    ending = seen.run.ending
    rule = Unwinds.NO if ending is None else UNWINDS[ending.reaction]
    return "" if rule in (Unwinds.YES, Unwinds.UNLESS_POLICY) else "a run that ends like this undoes nothing"


@on("compensation_issued")
def newest_first(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Strictly the newest change first, one at a time, and none that was not executed."""
    changes = seen.changes
    # What turned out not to have been executed needs no undoing any more, once nothing is out about it.
    if changes.undoing not in ("", fact.of_key) and (changes.out or changes.by_key[changes.undoing].standing):
        return "another one is being undone"
    if fact.of_key != changes.newest():
        change = changes.by_key.get(fact.of_key)
        return f"it is not the newest: it is {change.status}" if change is not None else "it was never intended"
    changes.undoing, changes.out = fact.of_key, True
    return ""


@on("compensation_failed", "compensation_interrupted")
def none_is_out(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Keeps that the attempt is over."""
    seen.changes.out = False
    return ""


@on("compensation_issued", "reconciliation_issued", "compensation_answered")
def errands_in_order(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Attempts of a compensation, or of a question what happened, follow each other; none after its answer."""
    if fact.command_id in seen.answered:
        return "it had been answered"
    if fact.kind == "compensation_answered":
        seen.answered.add(fact.command_id)
        return ""
    before, seen.attempts[fact.command_id] = seen.attempts.get(fact.command_id, 0), fact.attempt
    return "" if fact.attempt == before + 1 else f"attempt {fact.attempt} after {before}"


@on("compensation_answered", "compensation_by_hand", "compensation_skipped", "compensation_abandoned")
def dealt_with(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What is not undone is said, and has its reason: it cannot be, nobody answered, or an operator stopped it."""
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
        return "" if change.answer == "respond" else "nobody said so"
    if fact.kind == "compensation_abandoned":
        return "" if changes.terminated or change.answer == "expired" else "nobody was asked"
    return ""


@on("compensation_failed")
def asked_when_stuck(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """A compensation fails at most as often as the policy says before a person is asked."""
    failures = after.saga.unwinding.current.failures if after.saga.unwinding and after.saga.unwinding.current else 0
    most = seen.compiled.spec.policy.saga.compensation_attempts
    return f"{failures} failures, at most {most}" if failures > most else ""


@on("escalation_opened", "escalation_decided", "terminate_accepted")
def answers_about_changes(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """Keeps what people say about changes."""
    changes = seen.changes
    if fact.kind == "terminate_accepted":
        changes.terminated = True
    elif fact.kind == "escalation_opened":
        changes.items[fact.escalation_id] = (fact.item, fact.scope)
        if fact.item == "compensation":
            changes.by_key[fact.scope].asked = True
    else:
        item, scope = changes.items[fact.escalation_id]
        if item == "pre_action" and fact.verb in ("approve", "edit"):
            changes.approved.add(scope)
        if item == "compensation":
            changes.by_key[scope].answer = "expired" if fact.system else fact.verb
    return ""


@on("unwinding_omitted")
def said_what_stays(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """What a run leaves as it is, it names."""
    stays = [one.tool for one in reversed(seen.changes.by_key.values()) if one.standing]
    unread = seen.run.state is RunState.QUARANTINED and seen.damaged  # Then it names what it can read.
    for one in seen.changes.by_key.values():
        one.status = "stays" if one.standing else one.status
    return "" if list(fact.stays) == stays or unread else f"what stays is {stays}"


@on("unwinding_finished", "run_ended", "replanned")
def nothing_left_to_undo(seen: Seen, event: Event, fact: Any, after: Run) -> str:
    """No bad end, and no replan, while a change stands that is not named; but for a run whose journal cannot be read."""
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


def truth(seen: Seen, service: Service) -> str:
    """Whether the journal of an ended run says of its changes what the service's own books say; empty: it does."""
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
