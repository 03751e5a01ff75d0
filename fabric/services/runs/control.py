"""Controls a run from outside: cancel, terminate, pause, resume, message. Each is an input; the run's owner takes
it, decides and journals what follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from fabric.core.audit.lines import Act
from fabric.core.events.inputs import (
    INBOX,
    CancelRequested,
    ContextGiven,
    PauseRequested,
    PersonSpoke,
    ResumeRequested,
    TerminateRequested,
)
from fabric.core.graph.state import ENGINE_KEYS
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.topologies.conversation import WRITES_MAX
from fabric.core.texts.text import clean, clean_text
from fabric.core.values.fingerprint import encode
from fabric.core.values.flow import TERMINAL, RunState
from fabric.core.values.units import JSON
from fabric.runtime.ports.journal import JournalStore, Nudge
from fabric.runtime.quarantine.verdicts import WAKES_QUARANTINED
from fabric.selectors.runs.lookup import PAUSE, RESUME, RunView, count_holds, has_input, run_get
from fabric.selectors.runs.story.messages import ENDING, SAY, find_given, takes_turns
from fabric.services.acts import audit_entry
from fabric.services.errors import Refused, store_answers
from fabric.services.rights import right_wanted
from fabric.services.runs.start import REASON_CHARS_MAX, build_key

CANCEL_ID = "cancel"
"""Input id of a cancellation; a run takes one."""
TERMINATE_ID = "terminate"
"""Input id of a termination; a run takes one."""
VARIABLE_CHARS_MAX = 200
CONTEXT_BYTES_MAX = 100_000
"""Largest size of one write, in bytes of JSON."""
MESSAGE_CHARS_MAX = 20_000


def run_cancel(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, reason: str = "") -> bool:
    """Ask a run to stop: it issues nothing more, aborts its calls, undoes its changes and ends as cancelled. Returns
    False if repeated.

    A repetition is no error, also when the run has ended of it. Raises Refused: forbidden, not_found, conflict (it
    has ended otherwise), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "cancel runs")
    be = "be cancelled; start a new one if you need it again"
    run = run_get(actor, run_id)
    if run.state is RunState.CANCELLED and has_input(actor, run_id, CANCEL_ID):
        return False
    _require_running(run, be)
    asked = CancelRequested(input_id=CANCEL_ID, actor=actor.name, reason=_reason(reason))
    fresh = _put(store, nudge, actor, run_id, asked)
    now = run_get(actor, run_id)
    if now.state is not RunState.CANCELLED:
        _require_running(now, be)  # It may have ended while this was on its way.
    return fresh


def run_terminate(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, reason: str) -> bool:
    """End a run at once: it issues nothing more, abandons its calls and undoes nothing. Returns False if repeated.

    A repetition is no error, also when the run has ended of it. Raises Refused: forbidden, not_found, invalid (no
    reason), conflict (it has ended otherwise), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "terminate runs")
    run = run_get(actor, run_id)
    if run.state is RunState.ABORTED and has_input(actor, run_id, TERMINATE_ID):
        return False
    _require_running(run, "be terminated")
    why = _reason(reason)
    if not why:
        message = "terminating undoes nothing, so it needs a reason: say why, it is kept with the run"
        raise Refused(message, code="invalid", field="reason")
    return _put(store, nudge, actor, run_id, TerminateRequested(input_id=TERMINATE_ID, actor=actor.name, reason=why))


def run_pause(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, reason: str = "") -> bool:
    """Pause a run: it issues nothing until it is resumed, and its clocks stand still. Returns False if it is or will
    be paused anyway.

    Raises Refused: forbidden, not_found, conflict (it has ended), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "pause runs")
    _require_running(run_get(actor, run_id), "be paused")
    pauses, resumptions = count_holds(actor, run_id)
    if pauses > resumptions:
        nudge.wake(run_id)
        return False
    asked = PauseRequested(input_id=f"{PAUSE}{pauses + 1}", actor=actor.name, reason=_reason(reason))
    return _put(store, nudge, actor, run_id, asked)


def run_resume(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str) -> bool:
    """Resume a paused run with its remaining time. Returns False if it is not paused, or if another actor asked
    first.

    Raises Refused: forbidden, not_found, conflict (it has ended), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "resume runs")
    _require_running(run_get(actor, run_id), "be resumed")
    pauses, resumptions = count_holds(actor, run_id)
    if pauses == resumptions:
        return False
    return _put(store, nudge, actor, run_id, ResumeRequested(input_id=f"{RESUME}{pauses}", actor=actor.name))


def run_say(*, store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, text: str, start_key: str = "") -> bool:
    """Send a message into a run's conversation: the next speaker reads it after the turn in flight. Returns False if
    it was sent before.

    ``start_key``: key by which a repetition is recognised, also after the run's end; empty: each message is new.
    Raises Refused: forbidden, not_found, invalid (no text, too long), too_large (the key), conflict (the run has
    ended or ends, has no conversation, or the key was another message's), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "send messages to runs")
    run, key, said = run_get(actor, run_id), build_key("start_key", start_key), _message(text)
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
    """Write context variables of a run's conversation: delete keys first, then set. It takes no turn; rules see it
    after the turn in flight.

    Returns False if it was sent before. ``start_key``: as of ``run_say``. Raises Refused: forbidden, not_found,
    invalid (the values), too_large (the key), conflict (the run has ended or ends, has no conversation, or the key
    was another change's), unavailable.
    """
    right_wanted(actor, Right.CONTROL, "write context variables of runs")
    run, change = run_get(actor, run_id), _change(set or {}, delete)
    key = build_key("start_key", start_key)
    asked = ContextGiven(input_id=f"context:{key or uuid4().hex}", actor=actor.name, **change)
    return _put_once(store, nudge, actor, run, asked, keyed=bool(key))


def _change(sets: Mapping[str, JSON], deletes: Sequence[str]) -> dict[str, Any]:
    """Return the change, cleaned for storage. Raises Refused invalid."""
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
    """Raise Refused conflict for a run that has no conversation, or whose conversation is over."""
    _require_running(run, "take a message or a variable")
    if run.state in ENDING:
        message = f"run {run.id} is ending ({run.state}): no agent speaks in it any more, so it cannot take a message or a variable"
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
    """Put a person's input to a conversation into the run's inbox. Return False if it was sent before, under
    its key.
    """
    if keyed and _was_sent(asked, actor, run.id):
        return False
    _hears(run)
    fresh = _put(store, nudge, actor, run.id, asked)
    if fresh:
        _require_running(
            run_get(actor, run.id), "take a message or a variable"
        )  # It may have ended while this was on its way.
    else:
        _was_sent(asked, actor, run.id)
    return fresh


def _was_sent(asked: PersonSpoke | ContextGiven, actor: Actor, run_id: str) -> bool:
    """Return True if this input was sent before. Raises Refused conflict where another one was sent under its key."""
    before = find_given(actor, run_id, asked.input_id)
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
"""Inputs that reach a quarantined run too."""


def _put(store: JournalStore, nudge: Nudge, actor: Actor, run_id: str, asked: Asked) -> bool:
    act = audit_entry(actor=actor, act=_ACTS[type(asked)], subject=run_id, input_id=asked.input_id)
    wakes = WAKES_QUARANTINED if isinstance(asked, _ENDS) else 1
    with store_answers():
        fresh = store.put_input(
            run_id, asked.input_id, INBOX.dump_json(asked), wakes=wakes, format=INBOX.format_of(asked), audit=act
        )
    nudge.wake(run_id)
    return fresh


def _require_running(run: RunView, be: str) -> None:
    if run.state in TERMINAL:
        message = f"run {run.id} has already ended ({run.state}), so it cannot {be}"
        raise Refused(message, code="conflict", field="run")


def _reason(reason: str) -> str:
    return clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
