"""Whether an answer is one that this person may give to this question: what is refused before it is sent. The run looks at it again when it takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.adapters.evaluators import compile_schema
from fabric.adapters.tools.registry import validator_of
from fabric.core import forms, requested_input
from fabric.core.actor import Actor
from fabric.core.budget_caps import RUN, cap_key
from fabric.core.eligibility import PROGRAM, STOPS
from fabric.core.fingerprint import encode
from fabric.core.inputs import DecisionMade
from fabric.core.questions import SYSTEM
from fabric.core.raised_cap import caps_problem, money_problem, sessions_tokens, unnamed
from fabric.core.roles import Right, holders
from fabric.core.taxonomy import Tier
from fabric.core.text import clean, clean_text
from fabric.core.workspace_policy.rules import run_cap
from fabric.selectors.contents import holds_mark
from fabric.selectors.escalations import EscalationView
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.review_asked import why_not
from fabric.selectors.review_claims import claim_of
from fabric.selectors.review_lateness import is_over, too_late
from fabric.selectors.review_people import edit_problem
from fabric.selectors.shown_before import DIGEST_CHARS_MIN, not_its_digest
from fabric.selectors.workspace_policies import standing_policy
from fabric.services.claims import in_other_hands
from fabric.services.errors import Refused
from fabric.services.rights import SIGN_IN, SIGN_IN_S, TOKEN, is_fresh
from fabric.services.workspaces import people_of

JSON = Any
MESSAGE_CHARS_MAX = 4_000
EDITED_BYTES_MAX = 64_000
NEEDS_A_REASON = {
    ("", "reject"): "a rejection needs a reason: say why in the message, it is kept with the run",
    ("", "decline"): "say in the message why the call is not made: the agent goes on with these words as its error",
    ("", "respond"): "say in the message what you did by hand: it is kept with the run as the reason",
    (
        "pre_action",
        "respond",
    ): "say in the message what the agent is to be told: it stands in place of the call's result",
    ("failure", "respond"): "say in the message what the agent is to be told: its step runs once more with it",
    ("post_stage", "respond"): "say in the message what is to be done otherwise: the stage runs once more with it",
    ("ticket", "respond"): "say in the message what became of it: the ticket is closed with that note",
}
"""Kinds of item (empty: any) and verbs that are not taken without a message, and what is said then."""
STAKES_REASON = "in high-stakes every answer needs a reason: say why in the message, it is kept with the run"
UNFIT: Mapping[str, str] = {
    "arguments": "the arguments do not fit",
    "payload": "the payload does not fit",
    "brief": "the brief does not fit",
    "answer": "the answer does not fit the form",
}
"""What is said of an edit, by what is edited (``content["edit_of"]``)."""
PROBLEMS_SAID = 5


def may_decide(actor: Actor) -> None:
    """Refuses a program for which no owner named anything to decide. Who may answer what is asked of the question."""
    named = any(role.startswith(f"{PROGRAM}:") for role in actor.held or actor.roles)
    if actor.kind != "person" and not (actor.kind == "service" and named):
        message = f"{actor.name} is a {actor.kind} account, and only people decide: log in as a person"
        raise Refused(message, code="forbidden", field="actor")
    if actor.name == SYSTEM:
        # The journal marks what the system decides by this name.
        raise Refused(
            f"nobody may decide under the name {SYSTEM!r}; log in under another", code="forbidden", field="actor"
        )


def fresh_enough(actor: Actor, item: EscalationView) -> None:
    """Refuses, in high-stakes, whoever comes with a token or signed in too long ago."""
    if item.tier != Tier.HIGH_STAKES:
        return
    if actor.via.startswith(TOKEN):
        message = f"in high-stakes nobody decides with a token: sign in, and answer item {item.id} in the browser"
        raise Refused(message, code="forbidden", field="actor")
    if not is_fresh(actor):
        minutes = SIGN_IN_S // 60
        message = f"in high-stakes a sign-in is good for {minutes} minutes: sign in again, then answer item {item.id}"
        raise Refused(message, code="forbidden", field=SIGN_IN)


def message_of(message: str) -> str:
    """What was said with an answer, fit to be kept. Raises Refused too_large."""
    cleaned = clean_text(message)[0].strip()
    if len(cleaned) > MESSAGE_CHARS_MAX:
        sentence = (
            f"the message has {len(cleaned):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken; make it shorter"
        )
        raise Refused(sentence, code="too_large", field="message")
    return cleaned


def edited_of(verb: str, edited: JSON) -> JSON:
    """What was written in place of what was shown, fit to be kept; None with another verb. Raises Refused invalid, too_large."""
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


def possible(actor: Actor, item: EscalationView, decision: DecisionMade, claim_lease: int = 0) -> None:
    """Refuses what is no answer to the question, was meant for another one, or is not this person's to give.

    ``claim_lease``: the number of the lease under which it is given; 0: whichever stands.
    """
    if decision.verb not in item.verbs:
        message = f"{decision.verb[:40]!r} is no answer to item {item.id}; possible are: {', '.join(item.verbs)}"
        raise Refused(message, code="invalid", field="verb")
    _shown(item, decision)
    if is_over(item):
        raise Refused(too_late(item), code="conflict", field="due_at")
    caps = decision.cap_usd_micros is not None or bool(decision.caps)
    if wrong := why_not(item, actor, decision.verb, caps=caps and bool(item.given.get("takes_cap"))):
        raise Refused(f"item {item.id}: {wrong}", code="forbidden", field="actor")
    _not_theirs_behind(actor, item, decision)
    if decision.verb == "edit" and (dead_end := edit_problem(actor, item)):
        raise Refused(f"item {item.id}: {dead_end}", code="invalid", field="verb")
    fresh_enough(actor, item)
    _in_nobody_elses_hand(actor, item, claim_lease)
    _said_why(item, decision)
    if decision.tool and (wrong_tool := _tool_problem(item, decision)):
        raise Refused(wrong_tool, code="invalid", field="tool")
    if decision.verb == "edit" and (problems := edit_problems(item, decision.edited, decision.tool)):
        said = UNFIT[item.given.get("edit_of", "arguments")]
        sentence = f"{said}: {'; '.join(problems[:PROBLEMS_SAID])}"
        raise Refused(sentence, code="invalid", field="edited", problems=tuple(problems))
    if (
        decision.verb == "edit"
        and item.given.get("edit_of", "arguments") == "arguments"
        and holds_mark(decision.edited)
    ):
        message = f"the arguments hold a mark in place of a credential; write the value itself, or have it revealed ({holders(Right.REVEAL)})"
        raise Refused(message, code="invalid", field="edited")
    if requested_input.is_about(item.given) and (unfilled := requested_input.problem(item.given, decision)):
        raise Refused(unfilled, code="invalid", field="edited")
    _caps_fit(item, decision)
    if decision.model and (wrong_model := _model_problem(item, decision.verb, decision.model)):
        raise Refused(wrong_model, code="invalid", field="model")


def _shown(item: EscalationView, decision: DecisionMade) -> None:
    """Refuses an answer that would let something pass unseen, or was meant for an earlier content."""
    if decision.digest == item.digest:
        return
    if len(decision.digest) < DIGEST_CHARS_MIN:
        message = (
            f"an answer says to which content it was given: give the digest of item {item.id}, or at least its first "
            f"{DIGEST_CHARS_MIN} characters"
        )
        raise Refused(message, code="invalid", field="digest")
    message = f"{not_its_digest(item, decision.digest)}; look at it again before you decide"
    raise Refused(message, code="conflict", field="digest")


def _not_theirs_behind(actor: Actor, item: EscalationView, decision: DecisionMade) -> None:
    """Refuses whoever acts with what somebody made who may not let this pass themselves: a program's token, a sign-in link."""
    if decision.verb in STOPS or not actor.behind:
        return
    own = {*item.agreed, item.proposed_by}
    if (
        item.approvals > 1 or tuple(people_of(actor.workspace_id, item.fabric_name) or ()) != actor.behind
    ):  # Who is alone may themselves.
        own.update(item.barred)
    if behind := [name for name in actor.behind if name in own]:
        made = "its token" if actor.kind == "service" else "this sign-in's link"
        message = f"item {item.id}: {actor.name} may not let this pass: {behind[0]}, who made {made}, may not let it pass themselves"
        raise Refused(message, code="forbidden", field="actor")


def _in_nobody_elses_hand(actor: Actor, item: EscalationView, claim_lease: int) -> None:
    claim = claim_of(actor, item.id)
    if claim is not None and claim.hinders(actor.name):
        raise in_other_hands(item.id, claim)
    if claim_lease and (claim is None or (claim.holder, claim.lease) != (actor.name, claim_lease)):
        message = f"item {item.id} is not in your hand any more: look at it again, and claim it before you decide"
        raise Refused(message, code="conflict", field="claim")


def _said_why(item: EscalationView, decision: DecisionMade) -> None:
    needed = NEEDS_A_REASON.get((item.item, decision.verb), NEEDS_A_REASON.get(("", decision.verb)))
    needed = needed or (STAKES_REASON if item.tier == Tier.HIGH_STAKES else None)
    if needed and not decision.message:
        raise Refused(needed, code="invalid", field="message")


def edit_problems(item: EscalationView, edited: JSON, tool: str = "") -> list[str]:
    """What is wrong with what was written in place of what an item asks about, each with its path; empty when nothing is. ``tool``: the one that is to be called with
    it, where that is another one than is shown.
    """
    if not isinstance(edited, dict):
        return ["a JSON object is wanted"]
    shown = str(item.given.get("tool", ""))
    if requested_input.is_about(item.given):
        return forms.misfits(item.given["edit_schema"], edited)
    if tool in ("", shown) and (schema := item.given.get("edit_schema")):
        return compile_schema(schema)(edited)
    tools = {one.name: one for one in revision_spec(item.revision_id).all_tools}
    asked = tools.get(tool or shown)
    return validator_of(asked)(edited) if asked is not None else []


def _tool_problem(item: EscalationView, decision: DecisionMade) -> str:
    """Why another tool cannot be called in place of the one that is shown."""
    takes = [str(item.given.get("tool", "")), *item.given.get("takes_tools", ())]
    if decision.verb != "edit" or "takes_tools" not in item.given:
        return f"another tool goes with the edit of a call; item {item.id} takes none"
    if decision.tool not in takes:
        return f"{decision.tool[:63]!r} may not be called in place of this one; there are: {', '.join(takes[1:])}"
    return ""


def _caps_fit(item: EscalationView, decision: DecisionMade) -> None:
    """Refuses new caps that cannot be taken; the run looks at them again, by what it may spend then."""
    if decision.cap_usd_micros is None and not decision.caps:
        return _cap_named(item, decision)
    field = "caps" if decision.cap_usd_micros is None else "cap_usd_micros"
    if decision.verb != "approve" or not item.given.get("takes_cap"):
        message = f"a new cap goes with the approval of a run that costs too much; item {item.id} takes none"
        raise Refused(message, code="invalid", field=field)
    standing = {cap_key(one["scope"], one["unit"]): int(one["cap"]) for one in item.given.get("takes_caps", ())}
    budget, before = revision_spec(item.revision_id).policy.budget, int(item.given.get("cap_usd_micros") or 0)
    most = None
    if decision.cap_usd_micros is not None:
        most = run_cap(standing_policy(item.workspace_id).policy, Tier(item.tier))
    if wrong := money_problem(budget, decision.cap_usd_micros, before, most):
        raise Refused(wrong, code="invalid", field="cap_usd_micros")
    if wrong := caps_problem(decision, before, standing, sessions_tokens(budget)):
        raise Refused(wrong, code="invalid", field="caps")
    return _cap_named(item, decision)


def _cap_named(item: EscalationView, decision: DecisionMade) -> None:
    """Refuses an approval of a spent budget that names no higher cap."""
    needs = item.given.get("needs_cap")
    if needs and (missing := unnamed(needs, decision)):
        money = (needs["scope"], needs["unit"]) == (RUN, "usd_micros")
        raise Refused(missing, code="invalid", field="cap_usd_micros" if money else "caps")


def _model_problem(item: EscalationView, verb: str, model: str) -> str:
    """Why another model cannot be put in place."""
    takes = item.given.get("takes_model")
    if verb != "approve" or not takes:
        return f"another model goes with the approval of a call that failed; item {item.id} takes none"
    if model != takes["model"]:
        return f"item {item.id} asks about model {takes['model']!r}, not about {model[:63]!r}; name that one or none"
    return ""
