"""Lists the consequences of each answer to a review, and of none, step by step. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from console.site.sentences import sentence
from console.templatetags.figures import usd
from console.templatetags.marks import spell_name
from fabric.core.reviews.consequences import SECOND_FIRST
from fabric.core.reviews.requested_input import is_about
from fabric.core.spec.policies.people import UNDO_S
from fabric.core.values.taxonomy import Tier
from fabric.selectors.reviews.evidence.review_evidence import ReviewEvidence
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.reviews.subjects import FOLLOWS

WORDS: Mapping[str, tuple[str, str, str]] = {
    "approve": ("check", "a", FOLLOWS["approve"]),
    "edit": ("edit", "e", FOLLOWS["edit"]),
    "respond": ("inject", "s", FOLLOWS["respond"]),
    "decline": ("never", "d", FOLLOWS["decline"]),
    "reject": ("x", "r", FOLLOWS["reject"]),
}
"""Icon, key and default consequence of each verb; total by test."""
ACTS: Mapping[str, Mapping[str, str]] = {
    "failure": {"approve": "Try again", "edit": "Edit", "respond": "Respond", "reject": "Reject"},
    "post_stage": {"approve": "Let it pass", "edit": "Edit", "respond": "Respond", "reject": "Reject"},
    "pre_action": {
        "approve": "Make the call",
        "edit": "Edit",
        "respond": "Respond",
        "decline": "Decline",
        "reject": "Reject",
    },
    "compensation": {"approve": "Try again", "respond": "Undone by hand"},
    "child": {"approve": "Let it continue", "reject": "Reject"},
    "quarantine": {"approve": "Resume the run", "reject": "Reject"},
    "follow_up": {"respond": "Close it"},
}
"""Word of the act behind each verb, by the review's kind; total by test."""
APPROVALS: Mapping[str, str] = {"needs_cap": "Raise the cap", "releases": "Let it pass", "asks": "Send this answer"}
"""Word of an approval by the field that says what it does. It replaces the kind's own."""
ORDER = tuple(WORDS)
ENDS = frozenset({"failure", "post_stage", "child"})
"""Kinds of reviews whose rejection ends the run."""
CALLS = "pre_action"
OVER = re.compile(r"-\$[\d.,]*\d")
"""Money below nothing in a review's own words: earlier versions wrote it."""
RESUMES = ": resumes at "
"""Text in a review's own words before the place where its run goes on."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """One answer as the page offers it."""

    verb: str
    word: str
    icon: str
    key: str
    short: str
    """Text under its name."""
    steps: tuple[str, ...]
    """Consequences in order."""


def consequences(item: ReviewView, known: ReviewEvidence, second: str = "", no_edit: str = "") -> list[Consequence]:
    """Return the consequences of every answer that a review takes.

    ``second``: sentence that names the second person; ``""`` if none is needed. ``no_edit``: reason against an edit.
    """
    verbs = sorted(item.verbs, key=lambda verb: ORDER.index(verb) if verb in ORDER else len(ORDER))
    found = [_consequence(item, known, verb, second) for verb in verbs]
    refused = f"{no_edit[:1].upper()}{no_edit[1:]}."
    return [replace(one, steps=(refused,)) if no_edit and one.verb == "edit" else one for one in found]


def _consequence(item: ReviewView, known: ReviewEvidence, verb: str, second: str) -> Consequence:
    icon, key, otherwise = WORDS.get(verb, ("decide", "", ""))
    says = OVER.sub("no money", str(item.content.get(verb) or otherwise))
    steps = [_describe_hold(item)]
    if verb == "edit":
        steps.append(_describe_gates(item))
    steps += _others(item, verb, says, second)
    steps += _describe_rejection(item, known, says) if verb == "reject" else _goes_on(item, known, verb, says)
    return Consequence(verb, name_act(item, verb), icon, key, _short(known, verb, says), tuple(steps))


def name_act(item: ReviewView, verb: str) -> str:
    """Return the act that a verb stands for in this review."""
    named = next((word for field, word in APPROVALS.items() if item.content.get(field)), "")
    return (verb == "approve" and named) or ACTS.get(item.item, {}).get(verb) or verb.capitalize()


def _others(item: ReviewView, verb: str, says: str, second: str) -> list[str]:
    """Return who else has to agree.

    Rejecting and answering need one person. An edit in high-stakes needs another person's approval.
    """
    if verb not in ("approve", "edit"):
        return []
    if second:
        return [second]
    proposes = verb == "edit" and item.tier == Tier.HIGH_STAKES and SECOND_FIRST not in says
    return ["A second person must approve your version first."] if proposes else []


def _short(known: ReviewEvidence, verb: str, says: str) -> str:
    """Return the text under the button: the review's own, and the number of compensations if it does not mention
    them.
    """
    count = sum(bool(one.compensation) for one in known.undo)
    if verb == "reject" and count and "compensation" not in says:
        return f"{says}; runs {count} compensation{'s' if count != 1 else ''}"
    return says


def _describe_rejection(item: ReviewView, known: ReviewEvidence, says: str) -> list[str]:
    ends = if_rejected(item, known)
    before = says.partition(", and the run is aborted")[0]
    # The run's end is told in full below.
    return ([] if ends and before.startswith("the run is aborted") else [sentence(before if ends else says)]) + ends


def _goes_on(item: ReviewView, known: ReviewEvidence, verb: str, says: str) -> list[str]:
    """Return the act and the place where the run goes on.

    The review's own words are split at that place. Without them the text comes from the state of the run.
    """
    clock = "the deadline is issued anew" if known.clock_left_us is not None else "its clock runs on"
    done, resumes, where = says.partition(RESUMES)
    if resumes:
        return [sentence(done), sentence(f"{resumes.removeprefix(': ')}{where}; {clock}")]
    if not known.folded or item.content.get("edit_of") == "brief":
        return [sentence(says)]
    if item.item == "compensation":
        return [sentence(says), "Undoing continues with the next compensation."]
    left = [f"{usd(known.left_usd_micros)} left"]
    if item.item != CALLS or verb != "respond":
        left.append(f"{known.replans_left} replan{'s' if known.replans_left != 1 else ''} left")
    return [sentence(says), f"The run resumes at {spell_name(item.stage)} with {' and '.join(left)}; {clock}."]


def _describe_hold(item: ReviewView) -> str:
    return f"Held for {UNDO_S[Tier(item.tier)]:g} s: until then you can undo it with u."


def _describe_gates(item: ReviewView) -> str:
    if is_about(item.content):
        return "Your answer is checked by the form's rules."
    if item.item == CALLS:
        return "Your arguments take the tool's schema, the policies and the protections again."
    return f"Your version passes the gates of {spell_name(item.stage)} again."


def if_rejected(item: ReviewView, known: ReviewEvidence) -> list[str]:
    """Return the compensations that a rejection runs, and how the run ends."""
    if item.item not in ENDS and "abort" not in str(item.content.get("reject", "")):
        return []
    done = [
        f"{one.compensation} undoes {one.tool}." if one.compensation else f"{one.tool} stays: it cannot be undone."
        for one in known.undo
    ]
    fork = f" You can fork it from event {known.seq}." if known.seq else ""
    return [*done, f"The run ends as aborted.{fork}"]
