"""Checks an answer to a review before it is sent; the run checks it again when it takes it."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.events.inputs import DecisionMade
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import PROGRAM, STOPS, SYSTEM
from fabric.core.people.roles import Right, holders
from fabric.core.reviews import requested_input
from fabric.core.reviews.raised_cap import caps_problem, money_problem, sessions_tokens, unnamed_cap
from fabric.core.spec.policies.budgets import RUN, cap_key
from fabric.core.texts import forms
from fabric.core.texts.text import clean, clean_text
from fabric.core.values.fingerprint import encode
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import JSON
from fabric.core.workspace_policy.rules import run_cap
from fabric.policies.schemas.evaluators import compile_schema
from fabric.selectors.contents import holds_mark
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.reviews.answers import is_over, too_late
from fabric.selectors.reviews.assignments import find_assignment
from fabric.selectors.reviews.eligibility import why_not
from fabric.selectors.reviews.history import DIGEST_CHARS_MIN, not_its_digest
from fabric.selectors.reviews.lookup import edit_problem
from fabric.selectors.reviews.needed_caps import find_cap_need
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.workspaces.policies import standing_policy
from fabric.services.actors import find_people
from fabric.services.errors import Refused
from fabric.services.reviews.assignments import refuse_assigned
from fabric.services.rights import SIGN_IN, SIGN_IN_S, TOKEN, is_fresh
from fabric.tools.runner import build_validator

MESSAGE_CHARS_MAX = 4_000
EDITED_BYTES_MAX = 64_000
NEEDS_A_REASON = {
    ("", "reject"): "a rejection needs a reason: say why in the message, it is kept with the run",
    ("", "decline"): "write in the message why the call is not made: the agent reads it as the call's error",
    ("", "respond"): "say in the message what you did by hand: it is kept with the run as the reason",
    (
        "pre_action",
        "respond",
    ): "write in the message what the agent should read instead of the call's result",
    ("failure", "respond"): "write in the message what the agent should know: its step runs again with it",
    ("post_stage", "respond"): "say in the message what is to be done otherwise: the stage runs once more with it",
    ("follow_up", "respond"): "say in the message what became of it: the follow-up is closed with that note",
}
"""Sentence for each kind of review (empty: any) and verb that needs a message."""
STAKES_REASON = "in high-stakes every answer needs a reason: say why in the message, it is kept with the run"
UNFIT: Mapping[str, str] = {
    "arguments": "the arguments do not fit",
    "payload": "the payload does not fit",
    "brief": "the brief does not fit",
    "answer": "the answer does not fit the form",
}
"""Sentence for an unfit edit, by the edited part (``content["edit_of"]``)."""
PROBLEMS_SAID = 5


def may_decide(actor: Actor) -> None:
    """Raise Refused for a program that no owner permits to decide anything. The review says who may answer it."""
    named = any(role.startswith(f"{PROGRAM}:") for role in actor.held or actor.roles)
    if actor.kind != "person" and not (actor.kind == "service" and named):
        message = f"{actor.name} is a {actor.kind} account, and only people decide: log in as a person"
        raise Refused(message, code="forbidden", field="actor")
    if actor.name == SYSTEM:
        # The journal marks what the system decides by this name.
        raise Refused(f"no person may decide as {SYSTEM!r}; sign in with another name", code="forbidden", field="actor")


def fresh_enough(actor: Actor, item: ReviewView) -> None:
    """Raise Refused in high-stakes for a token or an old sign-in."""
    if item.tier != Tier.HIGH_STAKES:
        return
    if actor.via.startswith(TOKEN):
        message = (
            f"high-stakes reviews cannot be decided with a token: sign in and decide review {item.id} in the browser"
        )
        raise Refused(message, code="forbidden", field="actor")
    if not is_fresh(actor):
        minutes = SIGN_IN_S // 60
        message = f"in high-stakes a sign-in is good for {minutes} minutes: sign in again, then answer review {item.id}"
        raise Refused(message, code="forbidden", field=SIGN_IN)


def read_message(message: str) -> str:
    """Return an answer's message, cleaned for storage. Raises Refused too_large."""
    cleaned = clean_text(message)[0].strip()
    if len(cleaned) > MESSAGE_CHARS_MAX:
        sentence = (
            f"the message has {len(cleaned):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken; make it shorter"
        )
        raise Refused(sentence, code="too_large", field="message")
    return cleaned


def find_edit(verb: str, edited: JSON) -> JSON:
    """Return the content of an edit, cleaned for storage; None with another verb. Raises Refused invalid, too_large."""
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


def possible(actor: Actor, item: ReviewView, decision: DecisionMade, assignment_lease: int = 0) -> None:
    """Raise Refused for an answer that does not fit the review, or is not this person's to give.

    ``assignment_lease``: number of the lease under which it is given; 0: any.
    """
    if decision.verb not in item.verbs:
        message = f"{decision.verb[:40]!r} is no answer to review {item.id}; possible are: {', '.join(item.verbs)}"
        raise Refused(message, code="invalid", field="verb")
    _check_shown_content(item, decision)
    if is_over(item):
        raise Refused(too_late(item), code="conflict", field="due_at")
    caps = decision.cap_usd_micros is not None or bool(decision.caps)
    if wrong := why_not(item, actor, decision.verb, caps=caps and bool(item.given.get("takes_cap"))):
        raise Refused(f"review {item.id}: {wrong}", code="forbidden", field="actor")
    _not_theirs_behind(actor, item, decision)
    if decision.verb == "edit" and (dead_end := edit_problem(actor, item)):
        raise Refused(f"review {item.id}: {dead_end}", code="invalid", field="verb")
    fresh_enough(actor, item)
    _require_assignment(actor, item, assignment_lease)
    _require_reason(item, decision)
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


def _check_shown_content(item: ReviewView, decision: DecisionMade) -> None:
    """Raise Refused for an answer that would approve an unseen content, or was meant for an earlier one."""
    if decision.digest == item.digest:
        return
    if len(decision.digest) < DIGEST_CHARS_MIN:
        message = (
            f"an answer says to which content it was given: give the digest of review {item.id}, or at least its first "
            f"{DIGEST_CHARS_MIN} characters"
        )
        raise Refused(message, code="invalid", field="digest")
    message = f"{not_its_digest(item, decision.digest)}; look at it again before you decide"
    raise Refused(message, code="conflict", field="digest")


def _not_theirs_behind(actor: Actor, item: ReviewView, decision: DecisionMade) -> None:
    """Raise Refused for an actor with a token or sign-in link from a person who may not approve this themselves."""
    if decision.verb in STOPS or not actor.behind:
        return
    own = {*item.agreed, item.proposed_by}
    if (
        item.approvals > 1 or tuple(find_people(actor.workspace_id, item.fabric_name) or ()) != actor.behind
    ):  # A sole member may.
        own.update(item.barred)
    if behind := [name for name in actor.behind if name in own]:
        made = "its token" if actor.kind == "service" else "this sign-in's link"
        message = f"review {item.id}: {actor.name} may not approve this: {behind[0]} made {made}, and may not approve it either"
        raise Refused(message, code="forbidden", field="actor")


def _require_assignment(actor: Actor, item: ReviewView, assignment_lease: int) -> None:
    assignment = find_assignment(actor, item.id)
    if assignment is not None and assignment.hinders(actor.name):
        raise refuse_assigned(item.id, assignment)
    if assignment_lease and (
        assignment is None or (assignment.holder, assignment.lease) != (actor.name, assignment_lease)
    ):
        message = f"you have lost the assignment of review {item.id}: look at it again, and claim it before you decide"
        raise Refused(message, code="conflict", field="assignment")


def _require_reason(item: ReviewView, decision: DecisionMade) -> None:
    needed = NEEDS_A_REASON.get((item.item, decision.verb), NEEDS_A_REASON.get(("", decision.verb)))
    needed = needed or (STAKES_REASON if item.tier == Tier.HIGH_STAKES else None)
    if needed and not decision.message:
        raise Refused(needed, code="invalid", field="message")


def edit_problems(item: ReviewView, edited: JSON, tool: str = "") -> list[str]:
    """Return the errors of an edited content, each with its path. ``tool``: the tool to call with it, where it is
    not the shown one.
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
    return build_validator(asked)(edited) if asked is not None else []


def _tool_problem(item: ReviewView, decision: DecisionMade) -> str:
    """Return the reason why another tool cannot replace the shown one."""
    takes = [str(item.given.get("tool", "")), *item.given.get("takes_tools", ())]
    if decision.verb != "edit" or "takes_tools" not in item.given:
        return f"another tool goes with the edit of a call; review {item.id} takes none"
    if decision.tool not in takes:
        return f"{decision.tool[:63]!r} may not be called in place of this one; there are: {', '.join(takes[1:])}"
    return ""


def _caps_fit(item: ReviewView, decision: DecisionMade) -> None:
    """Raise Refused for unusable caps; the run checks them again by what it may spend then."""
    if decision.cap_usd_micros is None and not decision.caps:
        return _cap_named(item, decision)
    field = "caps" if decision.cap_usd_micros is None else "cap_usd_micros"
    if decision.verb != "approve" or not item.given.get("takes_cap"):
        message = f"a new cap goes with the approval of a run that costs too much; review {item.id} takes none"
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


def _cap_named(item: ReviewView, decision: DecisionMade) -> None:
    """Raise Refused for an approval of a spent budget whose new cap is missing or too low."""
    needs = item.given.get("needs_cap")
    money = needs is not None and (needs["scope"], needs["unit"]) == (RUN, "usd_micros")
    wrong = unnamed_cap(needs, decision)
    if not wrong and decision.verb == "approve" and (need := find_cap_need(item)) is not None:
        named = {one.key: one.cap for one in decision.caps}
        cap = decision.cap_usd_micros if need.of_money else named.get(need.key)
        wrong = "" if cap is None else need.problem(cap)
    if wrong:
        raise Refused(wrong, code="invalid", field="cap_usd_micros" if money else "caps")


def _model_problem(item: ReviewView, verb: str, model: str) -> str:
    """Return the reason why another model cannot be the fallback."""
    takes = item.given.get("takes_model")
    if verb != "approve" or not takes:
        return f"another model goes with the approval of a call that failed; review {item.id} takes none"
    if model != takes["model"]:
        return f"review {item.id} asks about model {takes['model']!r}, not about {model[:63]!r}; name that one or none"
    return ""
