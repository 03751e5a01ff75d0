"""The same answer to several questions that are alike: each bound to what its own asks, each with a result of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fabric.core.actor import Actor
from fabric.core.policy import UNDO_S
from fabric.core.taxonomy import Tier
from fabric.core.text import clean_text
from fabric.runtime.ports import JournalStore, Nudge
from fabric.selectors.escalations import EscalationView, escalations_named
from fabric.services.answer_checks import may_decide
from fabric.services.errors import Refused
from fabric.services.escalations import DecisionTaken, escalation_decide

BULK_MAX = 50
VERBS = ("approve", "reject", "respond", "decline")
"""What may be said to several at once: an edit is written for one."""


@dataclass(frozen=True, slots=True)
class BulkItem:
    """One of the questions, and the digest that the person was shown of it."""

    escalation_id: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """What came of one of them: the answer that was recorded, or why it was not."""

    escalation_id: str
    taken: DecisionTaken | None = None
    refused: Refused | None = None


def escalations_decide(
    *,
    store: JournalStore,
    nudge: Nudge,
    actor: Actor,
    items: Sequence[BulkItem],
    verb: str,
    message: str = "",
    undo: bool = False,
) -> list[BulkResult]:
    """Gives one answer to each of at most 50 questions of the same fabric, kind and stage, in their order; never in high-stakes, never an edit.

    ``undo``: whether each may be taken back for as long as its tier says. Raises Refused where nothing was done: forbidden, invalid, not_found.
    """
    may_decide(actor)
    tiers = {one.id: Tier(one.tier) for one in _alike(actor, items, verb)}
    results = []
    for one in items:
        try:
            taken = escalation_decide(
                store=store,
                nudge=nudge,
                actor=actor,
                escalation_id=one.escalation_id,
                verb=verb,
                message=message,
                digest=one.digest,
                undo_s=UNDO_S[tiers[one.escalation_id]] if undo and one.escalation_id in tiers else 0.0,
            )
            results.append(BulkResult(escalation_id=one.escalation_id, taken=taken))
        except Refused as refusal:
            results.append(BulkResult(escalation_id=one.escalation_id, refused=refusal))
    return results


def _alike(actor: Actor, items: Sequence[BulkItem], verb: str) -> list[EscalationView]:
    """Those of the questions that there are. Refused what is not to be answered at one go."""
    if verb not in VERBS:
        message = f"{verb[:40]!r} is not said to several questions at once; possible are: {', '.join(VERBS)}"
        raise Refused(message, code="invalid", field="verb")
    if not items or len(items) > BULK_MAX:
        message = f"{len(items)} questions were picked: pick at least one and at most {BULK_MAX}"
        raise Refused(message, code="invalid", field="items")
    ids = [clean_text(one.escalation_id)[0] for one in items]
    if len(set(ids)) < len(ids):
        raise Refused("a question was picked twice: pick each one once", code="invalid", field="items")
    if any(not one.digest for one in items):
        message = "each question is answered as it was shown: give the digest of each"
        raise Refused(message, code="invalid", field="items")
    found = escalations_named(actor, ids)
    if not found:
        raise Refused("none of these questions is in this workspace", code="not_found", field="items")
    if any(one.tier == Tier.HIGH_STAKES for one in found):
        message = "in high-stakes each question is answered by itself: leave those out"
        raise Refused(message, code="invalid", field="items")
    if len({_kind(one) for one in found}) > 1:
        message = "only questions of the same fabric, kind and stage are answered at one go: pick those that are alike"
        raise Refused(message, code="invalid", field="items")
    return found


def _kind(item: EscalationView) -> tuple[str, str, str]:
    return item.fabric_name, item.item, item.stage
