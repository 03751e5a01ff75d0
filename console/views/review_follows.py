"""What follows from each answer to a question, step by step, and from none: said before anybody decides. Pure words over what is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from console.forms import sentence
from console.templatetags.figures import usd
from console.templatetags.marks import spoken
from fabric.core.policy import UNDO_S
from fabric.core.requested_input import is_about
from fabric.core.taxonomy import Tier
from fabric.selectors.asked_about import FOLLOWS
from fabric.selectors.escalations import EscalationView
from fabric.selectors.review_evidence import Evidence

WORDS: Mapping[str, tuple[str, str, str, str]] = {
    "approve": ("Approve", "check", "a", FOLLOWS["approve"]),
    "edit": ("Edit", "edit", "e", FOLLOWS["edit"]),
    "respond": ("Respond", "inject", "s", FOLLOWS["respond"]),
    "decline": ("Decline", "never", "d", FOLLOWS["decline"]),
    "reject": ("Reject", "x", "r", FOLLOWS["reject"]),
}
"""Of each verb: its word, icon and key, and what follows where the question does not say; total by test."""
ORDER = tuple(WORDS)
ENDS = frozenset({"failure", "post_stage", "child"})
"""Kinds of which a rejection ends the run."""
CALLS = "pre_action"
RESUMES = ": resumes at "
"""Where a question's own words come to where its run goes on."""


@dataclass(frozen=True, slots=True)
class Consequence:
    """One answer as it is offered."""

    verb: str
    word: str
    icon: str
    key: str
    short: str
    """Under its name."""
    steps: tuple[str, ...]
    """What happens then, in order."""


def consequences(item: EscalationView, known: Evidence, second: str = "", no_edit: str = "") -> list[Consequence]:
    """Every answer that a question takes. ``second``: who else has to agree, one sentence; empty: nobody. ``no_edit``: why an edit is refused."""
    verbs = sorted(item.verbs, key=lambda verb: ORDER.index(verb) if verb in ORDER else len(ORDER))
    found = [_consequence(item, known, verb, second) for verb in verbs]
    refused = f"{no_edit[:1].upper()}{no_edit[1:]}."
    return [replace(one, steps=(refused,)) if no_edit and one.verb == "edit" else one for one in found]


def _consequence(item: EscalationView, known: Evidence, verb: str, second: str) -> Consequence:
    word, icon, key, otherwise = WORDS.get(verb, (verb.capitalize(), "decide", "", ""))
    says = str(item.content.get(verb) or otherwise)
    steps = [_held(item)]
    if verb == "edit":
        steps.append(_gated(item))
    steps += _others(item, verb, says, second)
    steps += _rejected(item, known, says) if verb == "reject" else _goes_on(item, known, verb, says)
    return Consequence(verb, word, icon, key, _short(known, verb, says), tuple(steps))


def _others(item: EscalationView, verb: str, says: str, second: str) -> list[str]:
    """Who else has to agree. Rejecting and answering are one person's; what somebody wrote in high-stakes is another's to let pass."""
    if verb not in ("approve", "edit"):
        return []
    if second:
        return [second]
    proposes = verb == "edit" and item.tier == Tier.HIGH_STAKES and "somebody else" not in says
    return ["Somebody else approves your version before anything of it is done."] if proposes else []


def _short(known: Evidence, verb: str, says: str) -> str:
    """Under the button: what the question says, and what it undoes where that is known and not said."""
    count = sum(bool(one.compensation) for one in known.undo)
    if verb == "reject" and count and "compensation" not in says:
        return f"{says}; runs {count} compensation{'s' if count != 1 else ''}"
    return says


def _rejected(item: EscalationView, known: Evidence, says: str) -> list[str]:
    ends = if_rejected(item, known)
    before = says.partition(", and the run is aborted")[0]
    # How the run ends is said in full below.
    return ([] if ends and before.startswith("the run is aborted") else [sentence(before if ends else says)]) + ends


def _goes_on(item: EscalationView, known: Evidence, verb: str, says: str) -> list[str]:
    """What is done, and where the run goes on: the question's own words, split where they say so; else what is known of the run."""
    clock = "the deadline is issued anew" if known.clock_left_us is not None else "its clock runs on"
    done, resumes, where = says.partition(RESUMES)
    if resumes:
        return [sentence(done), sentence(f"{resumes.removeprefix(': ')}{where}; {clock}")]
    if not known.folded or item.content.get("edit_of") == "brief":
        return [sentence(says)]
    if item.item == "compensation":
        return [sentence(says), "Undoing goes on with the next compensation."]
    left = [f"{usd(known.left_usd_micros)} left"]
    if item.item != CALLS or verb != "respond":
        left.append(f"{known.replans_left} replan{'s' if known.replans_left != 1 else ''} left")
    return [sentence(says), f"The run resumes at {spoken(item.stage)} with {' and '.join(left)}; {clock}."]


def _held(item: EscalationView) -> str:
    return f"Held for {UNDO_S[Tier(item.tier)]:g} s: until then you can take it back with u."


def _gated(item: EscalationView) -> str:
    if is_about(item.content):
        return "Your answer takes the rules of the form again."
    if item.item == CALLS:
        return "Your arguments take the tool's schema, the policies and the protections again."
    return f"Your version takes the gates of {spoken(item.stage)} again."


def if_rejected(item: EscalationView, known: Evidence) -> list[str]:
    """What a rejection undoes, and how the run ends."""
    if item.item not in ENDS and "abort" not in str(item.content.get("reject", "")):
        return []
    done = [
        f"{one.compensation} undoes {one.tool}." if one.compensation else f"{one.tool} stays: it cannot be undone."
        for one in known.undo
    ]
    fork = f" It may be forked from seq {known.seq}." if known.seq else ""
    return [*done, f"The run ends as aborted.{fork}"]
