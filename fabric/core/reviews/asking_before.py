"""Decides on a review before a call goes out (S2 "Human-in-the-Loop"; docs/specification/agent-step.md). The call is
irreversible, or its tool's rule requires a review.

The decision is made for a call without open dependencies, with its references resolved. A rule that cannot be
evaluated requires a review. Calls that the engine makes itself (a compensation, a reconciliation, a check of the
oracle) have none.
"""

from __future__ import annotations

from fabric.core.calls import issue as calls
from fabric.core.calls import screening
from fabric.core.calls.proposed import Proposed
from fabric.core.decision.work import Work
from fabric.core.mechanisms import budget, find_state
from fabric.core.people.eligibility import REVIEWER
from fabric.core.reviews import consequences, requested_input, reviews
from fabric.core.spec.tools import list_violations
from fabric.core.state import let_pass
from fabric.core.state.run import Step
from fabric.core.texts.forms import FormRequested
from fabric.core.values.fingerprint import digest, fingerprint
from fabric.core.values.frozen import value
from fabric.core.values.saga import Effect
from fabric.core.values.units import JSON

RUN = ("id", "tier", "epoch", "depth", "request", "documents", "spent_usd_micros", "cap_usd_micros")
"""Facts of its run that a rule may name."""
RULE_SHOWN = 200
"""Characters of a rule that the reason quotes; the review shows the whole rule too."""


@value()
class ReviewReason:
    """Reason for a review of a call."""

    reason: str
    rule: str = ""
    """The tool's rule that requires it; "": the call is irreversible."""
    unsure: str = ""
    """Reason why the rule could not be evaluated; "": it was, and requires a review."""
    requested: FormRequested | None = None
    """The question of the tool's server; None: none."""
    instructed: screening.Instructed | None = None
    """The result that instructs the agent; None: none."""


def review_reason(work: Work, step: Step, one: Proposed, index: int) -> ReviewReason | None:
    """Return why a call of the step's last answer needs a review. None: it needs none, or a person approved it."""
    requested = requested_input.open_request(step, calls.build_command_id(step, step.turns, index))
    if requested is not None:
        return ReviewReason(requested_input.reason(work, requested, one.tool), requested=requested)
    if is_approved(work, step, index):
        return None
    if (instructed := screening.find_instructing(work, step, one)) is not None:
        return ReviewReason(f"{step.agent} wants to call {one.tool} {instructed.sentence_part}", instructed=instructed)
    tool, wants = work.compiled_fabric.spec.tool(one.tool), f"{step.agent} wants to call {one.tool}"
    if Effect(tool.effect) is Effect.IRREVERSIBLE and tool.approval == "required":
        pattern = work.compiled_fabric.under.declared.get(one.tool)
        if pattern is not None:
            return ReviewReason(f"{wants}, which the workspace's policy declares irreversible ({pattern})")
        return ReviewReason(f"{wants}, which cannot be undone")
    if tool.approve_when is None:
        return None
    asks, unsure = _rule_asks(work, step, one)
    if not asks:
        return None
    short = tool.approve_when if len(tool.approve_when) <= RULE_SHOWN else f"{tool.approve_when[:RULE_SHOWN]}..."
    says = (
        f"and it is unknown whether its rule needs a review ({unsure})"
        if unsure
        else "whose rule asks for a person's word"
    )
    return ReviewReason(f"{wants}, {says}: {short}", tool.approve_when, unsure)


def is_approved(work: Work, step: Step, index: int) -> bool:
    """Return True if a person approved the call in a review."""
    return calls.build_command_id(step, step.turns, index) in work.run.saga.approved


def _rule_asks(work: Work, step: Step, one: Proposed) -> tuple[bool, str]:
    asks = work.compiled_fabric.evaluators.approvals.get(one.tool)
    return (True, "it is not compiled") if asks is None else asks(rule_values(work, step, one))


def rule_values(work: Work, step: Step, one: Proposed) -> dict[str, JSON]:
    """Return the values that a rule may name: arguments as sent, the caller, the stage, and facts of the run."""
    run, request = work.run, work.ctx.contents.read(work.run.request_ref)
    ledger = find_state(run.guards, budget)
    facts = {
        "id": run.id,
        "tier": str(run.tier),
        "epoch": run.epoch,
        "depth": run.depth,
        "request": request.get("text", ""),
        "documents": list(request.get("documents", ())),
        "spent_usd_micros": ledger.spent_usd_micros,
        "cap_usd_micros": budget.cap(work.compiled_fabric.spec.policy.budget, ledger),
    }
    return {"args": one.args, "agent": step.agent, "stage": str(step.stage), "run": facts}


def ask(work: Work, step: Step, one: Proposed, index: int, because: ReviewReason) -> None:
    """Open a review of the call; the step's other calls go on meanwhile."""
    policy = fingerprint(work.compiled_fabric.spec.policy.model_dump(mode="json"))
    rule = {"rule": because.rule, "unsure": because.unsure} if because.rule else {}
    if because.requested is None:
        shown = {**rule, **tool_information(work, step, one, one.tool), "payload": one.args, "edit_initial": one.args}
        shown |= because.instructed.reviewer_view() if because.instructed else {}
    else:
        shown = requested_input.offered_form(work, because.requested, one)
    reviews.open_item(
        work,
        item="pre_action",
        scope=calls.build_command_id(step, step.turns, index),
        step_id=step.id,
        reason=because.reason,
        shown={"agent": step.agent, **shown},
        role=let_pass.ROLE if because.instructed else REVIEWER,
        on_expiry="error" if requested_input.asks_itself(shown) else "reject",
        bound=digest(one.tool, one.args_hash, policy, work.compiled_fabric.revision),
    )


def others(work: Work, step: Step, one: Proposed) -> tuple[str, ...]:
    """Return the tools of its agent that a person may choose in place of a call. The agent's persona allows them."""
    spec = work.compiled_fabric.spec
    agent = spec.agent(step.agent)
    return tuple(
        name
        for name in spec.tools_of(agent)
        if name != one.tool and not list_violations(agent.persona, spec.tool(name))
    )


def tool_information(work: Work, step: Step, one: Proposed, tool: str) -> dict[str, JSON]:
    """Return the reviewer's information on a tool: for the call that the model proposed, or for one in its place."""
    spec, instead = work.compiled_fabric.spec.tool(tool), others(work, step, one)
    edited = f"{tool} is called once, with your arguments, if the protections let them pass"
    return {
        "tool": tool,
        "description": spec.description,
        "edit_of": "arguments",
        "edit_schema": spec.parameters,
        **({"takes_tools": list(instead)} if instead else {}),
        **({"effect": spec.effect} if work.compiled_fabric.under.number else {}),
        "approve": f"{tool} is called once, with exactly these arguments",
        "edit": f"{edited}; or another of its tools in its place" if instead else edited,
        "respond": "it is not called; the agent continues with your message as its result",
        "decline": "it is not called; the agent continues with your message as the call's error",
        "reject": f"it is not called, and {consequences.rejection_sentence(work)}",
        "expiry": "rejected by the system: it is not called",
    }
