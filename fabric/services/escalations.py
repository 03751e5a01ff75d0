"""Answering questions. A decision is an input to the run; what follows from it is decided, and journaled, by the run's owner.

A question takes one answer. Which of several that come at once is that one the inbox says: they all go for the same row, named by the
question and by how many answers were settled before (taken by the run, or taken back), and the row is inserted once. Until the run takes it,
whoever gave it may take it back, or let it count at once; which of the run and the person was first the inbox says as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fabric.adapters.tools.registry import validator_of
from fabric.core import releases
from fabric.core.actor import Actor
from fabric.core.audit import Act, AuditEntry
from fabric.core.budget_caps import NamedCap, cap_key
from fabric.core.fingerprint import encode
from fabric.core.inputs import INBOX, DecisionMade
from fabric.core.questions import SYSTEM
from fabric.core.raised_cap import caps_problem, money_problem
from fabric.core.text import clean, clean_text
from fabric.runtime.ports import JournalStore, Nudge, Withdrawn
from fabric.runtime.quarantine import WAKES_QUARANTINED
from fabric.selectors.answers import Answer, SentAnswer, answer_of, answers_sent, answers_settled, input_id
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.selectors.fabrics import revision_spec
from fabric.services.audit import audit_entry
from fabric.services.errors import Refused, store_answers

JSON = Any
MESSAGE_CHARS_MAX = 4_000
UNDO_S_MAX = 60.0
TRIES = 5
"""How often an answer is tried again that met another one which was gone when it was looked at: taken back, or refused by the run."""
BUSY = "item {} is being answered by others at this moment; look at it again"
EDITED_BYTES_MAX = 64_000
NEEDS_A_REASON = {
    ("", "reject"): "a rejection needs a reason: say why in the message, it is kept with the run",
    ("", "respond"): "say in the message what you did by hand: it is kept with the run as the reason",
    (
        "pre_action",
        "respond",
    ): "say in the message what the agent is to be told: it stands in place of the call's result",
}
"""Kinds of item (empty: any) and verbs that are not taken without a message, and what is said then."""
US = 1_000_000


@dataclass(frozen=True, slots=True)
class DecisionTaken:
    """An answer that was recorded. ``created`` False: the same person gave the same answer before."""

    run_id: str
    escalation_id: str
    verb: str
    created: bool


@dataclass(frozen=True, slots=True)
class DecisionUndone:
    """An answer that does not count. ``recorded`` False: it had been taken back before."""

    run_id: str
    escalation_id: str
    verb: str
    message: str
    recorded: bool


def escalation_decide(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    escalation_id: str,
    verb: str,
    message: str = "",
    digest: str = "",
    edited: JSON = None,
    cap_usd_micros: int | None = None,
    caps: Sequence[NamedCap] = (),
    model: str = "",
    undo_s: float = 0.0,
) -> DecisionTaken:
    """Records a person's answer and wakes the run's host. ``digest``: what the person was shown; empty: what the item asks now.

    ``edited``: with ``edit``, the arguments that the call is to be made with. ``cap_usd_micros``: with ``approve`` of a cost overrun, most the run may spend from
    now on, altogether; ``caps``: other caps that the question names (its ``takes_caps``). ``model``: with ``approve`` of a failed call, the one that it names. ``undo_s``: seconds in which the
    answer may be taken back. The same answer of one person again is one decision, also once the run has taken it. Raises Refused: not_found, forbidden, invalid, too_large, conflict, unavailable.
    """
    _may_decide(actor)
    written = _cleaned(verb, edited)
    for _ in range(TRIES):
        # Counted before the question is read: an answer that the run takes in between is met at the insert, not passed over.
        number = answers_settled(actor, escalation_id)
        item = escalation_get(actor, escalation_id)
        mine = DecisionMade(
            input_id=input_id(item.id, number),
            escalation_id=item.id,
            verb=verb,  # type: ignore[arg-type]
            actor=actor.name,
            digest=digest or item.digest,
            message=_message(message),
            edited=written,
            cap_usd_micros=cap_usd_micros,
            caps=tuple(caps),
            model=model,
        )
        if (given := answer_of(item)) is not None:
            if not _same(item, given, mine):
                raise _answered(item, given)
            nudge.wake(item.run_id)
            return DecisionTaken(item.run_id, item.id, verb, created=False)
        _possible(actor, item, mine)
        if _put(store, actor, item, mine, undo_s):
            nudge.wake(item.run_id)
            _counts(actor, mine)
            return DecisionTaken(item.run_id, item.id, verb, created=True)
    raise Refused(BUSY.format(escalation_id[:80]), code="unavailable", field="escalation")


def _put(store: JournalStore, actor: Actor, item: EscalationView, decision: DecisionMade, undo_s: float) -> bool:
    delay = min(max(undo_s, 0.0), UNDO_S_MAX)
    act = _told(actor, Act.DECISION_SENT, item, decision)
    wakes = WAKES_QUARANTINED if item.item == "quarantine" else 1
    body, format = INBOX.dump_json(decision), INBOX.format_of(decision)
    with store_answers():
        return store.put_input(
            item.run_id, decision.input_id, body, delay_s=delay, wakes=wakes, format=format, audit=act
        )


def escalation_undo(
    *, store: JournalStore, nudge: Nudge, actor: Actor, escalation_id: str, answer_id: str = ""
) -> DecisionUndone:
    """Takes an answer back that its run has not taken yet; the question is open again. Whoever gave it may, once or more often.

    ``answer_id``: the answer that was looked at; empty: the last one. Raises Refused: not_found, forbidden (another one's), conflict (the
    run was faster, or there is nothing to take back), unavailable.
    """
    item, sent, given = _last_of(actor, escalation_id, answer_id)
    if sent.fate == "waiting":
        act = _told(actor, Act.DECISION_TAKEN_BACK, item, given)
        with store_answers():
            fate = store.withdraw_input(item.run_id, sent.input_id, audit=act)
        nudge.wake(item.run_id)
        if fate is Withdrawn.GONE:
            return DecisionUndone(item.run_id, item.id, given.verb, given.message, recorded=True)
        item, sent, _ = _last_of(actor, escalation_id, sent.input_id)
    if sent.fate == "taken_back":
        return DecisionUndone(item.run_id, item.id, given.verb, given.message, recorded=False)
    raise _too_late(actor, item.id, "it cannot be taken back any more")


def escalation_decide_now(
    *, store: JournalStore, nudge: Nudge, actor: Actor, escalation_id: str, answer_id: str = ""
) -> DecisionTaken:
    """Lets an answer count at once which could still be taken back. ``created`` False: there was nothing to wait for any more.

    ``answer_id`` and what is raised: as for ``escalation_undo``; conflict also for an answer that was taken back.
    """
    item, sent, given = _last_of(actor, escalation_id, answer_id)
    if sent.fate == "taken_back":
        message = f"you took this answer to item {item.id} back: answer it anew"
        raise Refused(message, code="conflict", field="escalation")
    act = _told(actor, Act.DECISION_HASTENED, item, given)
    with store_answers():
        hastened = sent.fate == "waiting" and store.hasten_input(item.run_id, sent.input_id, audit=act)
    nudge.wake(item.run_id)
    return DecisionTaken(item.run_id, item.id, given.verb, created=hastened)


def _last_of(actor: Actor, escalation_id: str, answer_id: str) -> tuple[EscalationView, SentAnswer, DecisionMade]:
    """The question, and the answer that is meant. Refused where there is none, or it is another one's."""
    _may_decide(actor)
    item = escalation_get(actor, escalation_id)
    sent = [one for one in answers_sent(item) if one.input_id == answer_id or not answer_id]
    if not sent or sent[-1].decision is None:
        if not item.open:
            raise _too_late(actor, item.id, "there is nothing to take back")
        message = f"nobody has answered item {item.id}, so there is nothing to take back"
        raise Refused(message, code="conflict", field="escalation")
    given = sent[-1].decision
    if given.actor != actor.name:
        message = f"item {item.id} was answered by {given.actor}: only who gave an answer takes it back, or lets it count at once"
        raise Refused(message, code="forbidden", field="actor")
    return item, sent[-1], given


def _too_late(actor: Actor, escalation_id: str, so: str) -> Refused:
    item = escalation_get(actor, escalation_id)  # Read after its answers: the run may have taken one in between.
    answer = answer_of(item)
    if answer is None or item.open:
        message = f"the run has looked at this answer to item {item.id}, and the question is still open: answer it anew"
        return Refused(message, code="conflict", field="escalation")
    return Refused(f"{_answered(item, answer).message}; {so}", code="conflict", field="escalation")


def _told(actor: Actor, act: Act, item: EscalationView, given: DecisionMade) -> AuditEntry:
    more = {"item": item.id, "verb": given.verb, "digest": given.digest, "input_id": given.input_id}
    return audit_entry(actor=actor, act=act, subject=item.run_id, **more)


def _may_decide(actor: Actor) -> None:
    """People decide. Who of them may decide what is for roles to say, which come in with the actor."""
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, and only people decide: log in as a person"
        raise Refused(message, code="forbidden", field="actor")
    if actor.name == SYSTEM:
        # The journal marks what the system decides by this name.
        raise Refused(
            f"nobody may decide under the name {SYSTEM!r}; log in under another", code="forbidden", field="actor"
        )


def _may_release(actor: Actor, item: EscalationView, verb: str) -> None:
    """An unsafe output is let pass by who has the role for it; anybody who decides may keep it back."""
    if verb == "approve" and item.content.get("releases") and releases.ROLE not in actor.roles:
        message = f"{actor.name} may reject item {item.id} and not approve it: letting an unsafe output pass is for {releases.ROLE}"
        raise Refused(message, code="forbidden", field="actor")


def _message(message: str) -> str:
    cleaned = clean_text(message)[0].strip()
    if len(cleaned) > MESSAGE_CHARS_MAX:
        sentence = (
            f"the message has {len(cleaned):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken; make it shorter"
        )
        raise Refused(sentence, code="too_large", field="message")
    return cleaned


def _possible(actor: Actor, item: EscalationView, decision: DecisionMade) -> None:
    """Refuses what is no answer to the question, or was meant for another one."""
    if decision.verb not in item.verbs:
        message = f"{decision.verb[:40]!r} is no answer to item {item.id}; possible are: {', '.join(item.verbs)}"
        raise Refused(message, code="invalid", field="verb")
    if decision.digest != item.digest:
        message = f"item {item.id} asks about something else by now; look at it again before you decide"
        raise Refused(message, code="conflict", field="digest")
    _may_release(actor, item, decision.verb)
    needed = NEEDS_A_REASON.get((item.item, decision.verb), NEEDS_A_REASON.get(("", decision.verb)))
    if needed and not decision.message:
        raise Refused(needed, code="invalid", field="message")
    if decision.verb == "edit":
        wrong = edit_problems(item, decision.edited)
        if wrong:
            raise Refused(f"the arguments do not fit: {'; '.join(wrong[:5])}", code="invalid", field="edited")
    _caps_fit(item, decision)
    if decision.model and (wrong_model := _model_problem(item, decision.verb, decision.model)):
        raise Refused(wrong_model, code="invalid", field="model")


def _caps_fit(item: EscalationView, decision: DecisionMade) -> None:
    """Refuses new caps that cannot be taken; the run looks at them again, by what it may spend then."""
    if decision.cap_usd_micros is None and not decision.caps:
        return
    field = "caps" if decision.cap_usd_micros is None else "cap_usd_micros"
    if decision.verb != "approve" or not item.content.get("takes_cap"):
        message = f"a new cap goes with the approval of a run that costs too much; item {item.id} takes none"
        raise Refused(message, code="invalid", field=field)
    standing = {cap_key(one["scope"], one["unit"]): int(one["cap"]) for one in item.content.get("takes_caps", ())}
    budget, before = revision_spec(item.revision_id).policy.budget, int(item.content.get("cap_usd_micros") or 0)
    if wrong := money_problem(budget, decision.cap_usd_micros, before):
        raise Refused(wrong, code="invalid", field="cap_usd_micros")
    if wrong := caps_problem(decision, before, standing):
        raise Refused(wrong, code="invalid", field="caps")


def _model_problem(item: EscalationView, verb: str, model: str) -> str:
    """Why another model cannot be put in place."""
    takes = item.content.get("takes_model")
    if verb != "approve" or not takes:
        return f"another model goes with the approval of a call that failed; item {item.id} takes none"
    if model != takes["model"]:
        return f"item {item.id} asks about model {takes['model']!r}, not about {model[:63]!r}; name that one or none"
    return ""


def edit_problems(item: EscalationView, edited: JSON) -> list[str]:
    """What is wrong with arguments for the call that an item asks about, by its tool's schema; empty when nothing is."""
    if not isinstance(edited, dict):
        return ["a JSON object is wanted"]
    tools = {tool.name: tool for tool in revision_spec(item.revision_id).all_tools}
    asked = tools.get(str(item.content.get("tool", "")))
    return validator_of(asked)(edited) if asked is not None else []


def _cleaned(verb: str, edited: JSON) -> JSON:
    if edited is None or verb != "edit":
        return None
    try:
        cleaned = clean(edited)[0]
    except ValueError as error:
        raise Refused(f"the arguments cannot be kept: {error}", code="invalid", field="edited") from None
    size = len(encode(cleaned))
    if size > EDITED_BYTES_MAX:
        message = f"the arguments have {size:,} bytes; at most {EDITED_BYTES_MAX:,} are taken; make them shorter"
        raise Refused(message, code="too_large", field="edited")
    return cleaned


def _same(item: EscalationView, given: Answer, mine: DecisionMade) -> bool:
    """Whether the answer that a question has is this very one."""
    if given.by_system or (given.decided_by, given.verb, item.digest) != (mine.actor, mine.verb, mine.digest):
        return False
    return given.message is None or (given.message, given.edited, given.cap_usd_micros, given.caps, given.model) == (
        mine.message,
        mine.edited,
        mine.cap_usd_micros,
        mine.caps,
        mine.model,
    )


def _counts(actor: Actor, mine: DecisionMade) -> None:
    """Refuses an answer that came too late after all: the question was closed while it was on its way."""
    item = escalation_get(actor, mine.escalation_id)
    given = None if item.open else answer_of(item)
    if given is not None and not _same(item, given, mine):
        raise _answered(item, given)


def _answered(item: EscalationView, given: Answer) -> Refused:
    when = f"{datetime.fromtimestamp(given.decided_at / US, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if given.verb == "withdrawn":
        said = f"was withdrawn at {when}: {given.decided_by}"
    elif given.by_system:
        said = f"was decided by the system at {when}: {given.verb}, since nobody answered in time"
    else:
        said = f"was answered by {given.decided_by} at {when}: {given.verb}"
    return Refused(f"item {item.id} {said}", code="conflict", field="escalation")
