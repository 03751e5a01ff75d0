"""Taking hold of a run from outside: cancel, terminate, pause, resume, say something. Each is an input that its owner takes; what follows is decided, and journaled, there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.fingerprint import encode
from fabric.core.flow import TERMINAL, RunState
from fabric.core.graph.state import ENGINE_KEYS
from fabric.core.inputs import INBOX, CancelRequested, PauseRequested, ResumeRequested, TerminateRequested
from fabric.core.person_inputs import ContextGiven, PersonSpoke
from fabric.core.roles import Right
from fabric.core.spec_conversation import WRITES_MAX
from fabric.core.text import clean, clean_text
from fabric.runtime.ports import JournalStore, Nudge
from fabric.runtime.quarantine import WAKES_QUARANTINED
from fabric.selectors.control import PAUSE, RESUME, holds, was_sent
from fabric.selectors.messages import ENDING, SAY, given_before, takes_turns
from fabric.selectors.runs import RunView, run_get
from fabric.services.audit import audit_entry
from fabric.services.errors import Refused, store_answers
from fabric.services.rights import right_wanted
from fabric.services.runs import REASON_CHARS_MAX, key_of

CANCEL_ID = "cancel"
"""Input id of a cancellation: a second one is the same."""
TERMINATE_ID = "terminate"
"""Input id of a termination: a second one is the same."""
JSON = Any
VARIABLE_CHARS_MAX = 200
CONTEXT_BYTES_MAX = 100_000
"""Bytes of what is written at once, as JSON."""
MESSAGE_CHARS_MAX = 20_000


def run_cancel(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, reason: str = "") -> bool:
    """Asks a run to stop: it issues nothing more, aborts its calls, undoes what it did and ends as cancelled. False: that was asked before.

    Asked again by somebody who did not get the answer, it is no error, also when the run has ended of it. Raises Refused: forbidden, not_found,
    conflict (it has ended otherwise), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "cancel runs")
    be = "be cancelled; start a new one if you need it again"
    run = run_get(actor, run_id)
    if run.state is RunState.CANCELLED and was_sent(actor, run_id, CANCEL_ID):
        return False
    _going_on(run, be)
    asked = CancelRequested(input_id=CANCEL_ID, actor=actor.name, reason=_reason(reason))
    fresh = _put(store, nudge, actor, run_id, asked)
    now = run_get(actor, run_id)
    if now.state is not RunState.CANCELLED:
        _going_on(now, be)  # It may have ended while this was on its way.
    return fresh


def run_terminate(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, reason: str) -> bool:
    """Ends a run at once: it issues nothing more, lets its calls go and undoes nothing. False: that was asked before.

    Asked again, it is no error, also when the run has ended of it. Raises Refused: forbidden, not_found, invalid (no reason), conflict (it
    has ended otherwise), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "terminate runs")
    run = run_get(actor, run_id)
    if run.state is RunState.ABORTED and was_sent(actor, run_id, TERMINATE_ID):
        return False
    _going_on(run, "be terminated")
    why = _reason(reason)
    if not why:
        message = "terminating undoes nothing, so it needs a reason: say why, it is kept with the run"
        raise Refused(message, code="invalid", field="reason")
    return _put(store, nudge, actor, run_id, TerminateRequested(input_id=TERMINATE_ID, actor=actor.name, reason=why))


def run_pause(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, reason: str = "") -> bool:
    """Holds a run: nothing is issued until it is resumed, and its clocks stand still. False: it is held already, or about to be.

    Raises Refused: forbidden, not_found, conflict (it has ended), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "pause runs")
    _going_on(run_get(actor, run_id), "be paused")
    pauses, resumptions = holds(actor, run_id)
    if pauses > resumptions:
        nudge.wake(run_id)
        return False
    asked = PauseRequested(input_id=f"{PAUSE}{pauses + 1}", actor=actor.name, reason=_reason(reason))
    return _put(store, nudge, actor, run_id, asked)


def run_resume(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str) -> bool:
    """Lets a held run go on with the time it had left. False: it is not held, or somebody else asked for it first.

    Raises Refused: forbidden, not_found, conflict (it has ended), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "resume runs")
    _going_on(run_get(actor, run_id), "be resumed")
    pauses, resumptions = holds(actor, run_id)
    if pauses == resumptions:
        return False
    return _put(store, nudge, actor, run_id, ResumeRequested(input_id=f"{RESUME}{pauses}", actor=actor.name))


def run_say(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, text: str, start_key: str = "") -> bool:
    """Sends a message into a run's conversation: whoever speaks next reads it, once the turn in flight is over. False: it was sent before.

    ``start_key``: what makes it the same message, sent again, also when the run has ended since; empty: it is another one. Raises Refused: forbidden,
    not_found, invalid (no text, too long), too_large (the key), conflict (the run has ended or ends, has no conversation, or the key was another message's),
    unavailable.
    """
    right_wanted(actor, Right.CONTROL, "send messages to runs")
    run, key, said = run_get(actor, run_id), key_of("start_key", start_key), _message(text)
    asked = PersonSpoke(input_id=f"{SAY}{key or uuid4().hex}", actor=actor.name, text=said)
    return _put_once(store, nudge, actor, run, asked, keyed=bool(key))


def run_context(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    run_id: str,
    set: Mapping[str, JSON] | None = None,  # noqa: A002 - as the variables' own tool calls it
    delete: Sequence[str] = (),
    start_key: str = "",
) -> bool:
    """Writes context variables of a run's conversation: keys are deleted first, then set. It takes no turn; rules see it after the turn in flight.

    False: it was sent before. ``start_key``: as of ``run_say``. Raises Refused: forbidden, not_found, invalid (what is written), too_large (the key),
    conflict (the run has ended or ends, has no conversation, or the key was another change's), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "write context variables of runs")
    run, change = run_get(actor, run_id), _change(set or {}, delete)
    key = key_of("start_key", start_key)
    asked = ContextGiven(input_id=f"context:{key or uuid4().hex}", actor=actor.name, **change)
    return _put_once(store, nudge, actor, run, asked, keyed=bool(key))


def _change(sets: Mapping[str, JSON], deletes: Sequence[str]) -> dict[str, Any]:
    """The change, fit to be kept. Refused invalid."""
    named = [*sets, *deletes]
    wrong = ""
    if not named:
        wrong = "nothing is written: set a variable, or delete one"
    elif len(named) > WRITES_MAX:
        wrong = f"{len(named)} variables are written; at most {WRITES_MAX} are taken at once"
    elif not all(isinstance(key, str) and 1 <= len(key) <= VARIABLE_CHARS_MAX for key in named):
        wrong = f"the name of a variable has 1 to {VARIABLE_CHARS_MAX} characters"
    elif taken := sorted(ENGINE_KEYS & {*named}):
        wrong = f"{taken[0]!r} is written by the engine after each turn; take another name"
    if wrong:
        raise Refused(wrong, code="invalid", field="set")
    try:
        kept, _ = clean({"set": dict(sets), "delete": list(deletes)})
    except (ValueError, RecursionError) as error:
        raise Refused(f"what is written is refused: {error}", code="invalid", field="set") from None
    if len(encode(kept)) > CONTEXT_BYTES_MAX:
        message = f"what is written has more than {CONTEXT_BYTES_MAX:,} bytes; write less at once"
        raise Refused(message, code="too_large", field="set")
    return {"set": kept["set"], "delete": tuple(kept["delete"])}


def _hears(run: RunView) -> None:
    """Refuses what is for a run's conversation where nobody hears it: conflict."""
    _going_on(run, "take a message or a variable")
    if run.state in ENDING:
        message = f"run {run.id} is ending ({run.state}): nobody speaks in it any more, so it cannot take a message or a variable"
        raise Refused(message, code="conflict", field="run")
    if not takes_turns(run):
        message = f"run {run.id} has no conversation: its workers take no turns by a graph or by handing over"
        raise Refused(message, code="conflict", field="run")


def _message(text: str) -> str:
    said = clean_text(text)[0].strip()
    if not said:
        raise Refused("a message without words says nothing: write what is to be read", code="invalid", field="text")
    if len(said) > MESSAGE_CHARS_MAX:
        message = (
            f"the message has {len(said):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken: say it in fewer words"
        )
        raise Refused(message, code="invalid", field="text")
    return said


def _put_once(
    store: JournalStore, nudge: Nudge, actor: Actor, run: RunView, asked: PersonSpoke | ContextGiven, *, keyed: bool
) -> bool:
    """Puts what a person gives a conversation into the run's inbox; False: it was sent before, under its key."""
    if keyed and _said_before(asked, actor, run.id):
        return False
    _hears(run)
    fresh = _put(store, nudge, actor, run.id, asked)
    if fresh:
        _going_on(
            run_get(actor, run.id), "take a message or a variable"
        )  # It may have ended while this was on its way.
    else:
        _said_before(asked, actor, run.id)
    return fresh


def _said_before(asked: PersonSpoke | ContextGiven, actor: Actor, run_id: str) -> bool:
    """Whether that was sent before. Refused conflict where something else was, under the same key."""
    before = given_before(actor, run_id, asked.input_id)
    if before is not None and before != asked:
        key, what = asked.input_id.partition(":")[2], "message to" if isinstance(asked, PersonSpoke) else "change of"
        message = f"start_key {key!r} was used for another {what} this run; use a new key, or send the same again"
        raise Refused(message, code="conflict", field="start_key")
    return before is not None


Asked = CancelRequested | TerminateRequested | PauseRequested | ResumeRequested | PersonSpoke | ContextGiven
_ACTS: Mapping[type[Asked], Act] = {
    CancelRequested: Act.CANCEL_SENT,
    TerminateRequested: Act.TERMINATE_SENT,
    PauseRequested: Act.PAUSE_SENT,
    ResumeRequested: Act.RESUME_SENT,
    PersonSpoke: Act.MESSAGE_SENT,
    ContextGiven: Act.CONTEXT_SENT,
}
_ENDS = (CancelRequested, TerminateRequested)
"""What reaches a quarantined run too."""


def _put(store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, asked: Asked) -> bool:
    act = audit_entry(actor=actor, act=_ACTS[type(asked)], subject=run_id, input_id=asked.input_id)
    wakes = WAKES_QUARANTINED if isinstance(asked, _ENDS) else 1
    with store_answers():
        fresh = store.put_input(
            run_id, asked.input_id, INBOX.dump_json(asked), wakes=wakes, format=INBOX.format_of(asked), audit=act
        )
    nudge.wake(run_id)
    return fresh


def _going_on(run: RunView, be: str) -> None:
    if run.state in TERMINAL:
        message = f"run {run.id} has already ended ({run.state}), so it cannot {be}"
        raise Refused(message, code="conflict", field="run")


def _reason(reason: str) -> str:
    return clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
