"""Whether a person is asked before a call goes out: because it cannot be undone, or because its tool's rule says so (S2 "Human-in-the-Loop"; semantics.md 6).

Asked of a call that waits for nothing, with what it refers to in its place. A rule that cannot be evaluated asks. What the engine calls by itself (a compensation, a
reconciliation, a check of the oracle) is asked about by none.
"""

from __future__ import annotations

from typing import Any

from fabric.core import calls, consequences, questions, releases, requested_input, screening
from fabric.core.eligibility import REVIEWER
from fabric.core.fingerprint import digest, fingerprint
from fabric.core.forms import Requested
from fabric.core.frozen import value
from fabric.core.mechanisms import budget, state_of
from fabric.core.proposed import Proposed
from fabric.core.run import Step
from fabric.core.saga import Effect
from fabric.core.spec_persona import barred
from fabric.core.work import Work

JSON = Any
RUN = ("id", "tier", "epoch", "depth", "request", "documents", "spent_usd_micros", "cap_usd_micros")
"""What a rule may name of its run."""
RULE_SHOWN = 200
"""Characters of a rule that stand in the reason; the whole stands beside it."""


@value()
class Why:
    """Why a person is asked."""

    reason: str
    rule: str = ""
    """The rule that asks; empty: the call cannot be undone."""
    unsure: str = ""
    """Why nobody can say what the rule says; empty: it asks."""
    requested: Requested | None = None
    """The question of the tool's server; None: it asks nothing."""
    instructed: screening.Instructed | None = None
    """The result that tells the agent what to do; None: none does."""


def why(work: Work, step: Step, one: Proposed, index: int) -> Why | None:
    """Why a person is to be asked about a call of the step's last answer; None: nobody is, or somebody let it pass."""
    requested = requested_input.open_request(step, calls.command_id_of(step, step.turns, index))
    if requested is not None:
        return Why(requested_input.reason(work, requested, one.tool), requested=requested)
    if spoken(work, step, index):
        return None
    if (instructed := screening.to_ask(work, step, one)) is not None:
        return Why(f"{step.agent} wants to call {one.tool} {instructed.said}", instructed=instructed)
    tool, wants = work.compiled.spec.tool(one.tool), f"{step.agent} wants to call {one.tool}"
    if Effect(tool.effect) is Effect.IRREVERSIBLE and tool.approval == "required":
        pattern = work.compiled.under.declared.get(one.tool)
        if pattern is not None:
            return Why(f"{wants}, which the workspace's policy declares irreversible ({pattern})")
        return Why(f"{wants}, which cannot be undone")
    if tool.approve_when is None:
        return None
    asks, unsure = _asked(work, step, one)
    if not asks:
        return None
    short = tool.approve_when if len(tool.approve_when) <= RULE_SHOWN else f"{tool.approve_when[:RULE_SHOWN]}..."
    says = (
        f"and nobody can say whether its rule asks for a person's word ({unsure})"
        if unsure
        else "whose rule asks for a person's word"
    )
    return Why(f"{wants}, {says}: {short}", tool.approve_when, unsure)


def spoken(work: Work, step: Step, index: int) -> bool:
    """Whether a person was asked about a call and let it pass."""
    return calls.command_id_of(step, step.turns, index) in work.run.saga.approved


def _asked(work: Work, step: Step, one: Proposed) -> tuple[bool, str]:
    asks = work.compiled.evaluators.approvals.get(one.tool)
    return (True, "it is not compiled") if asks is None else asks(about(work, step, one))


def about(work: Work, step: Step, one: Proposed) -> dict[str, JSON]:
    """What a rule may name: the arguments as they would be sent, who calls, in which stage, and facts of the run."""
    run, request = work.run, work.ctx.contents.read(work.run.request_ref)
    ledger = state_of(run.guards, budget)
    facts = {
        "id": run.id,
        "tier": str(run.tier),
        "epoch": run.epoch,
        "depth": run.depth,
        "request": request.get("text", ""),
        "documents": list(request.get("documents", ())),
        "spent_usd_micros": ledger.spent_usd_micros,
        "cap_usd_micros": budget.cap(work.compiled.spec.policy.budget, ledger),
    }
    return {"args": one.args, "agent": step.agent, "stage": str(step.stage), "run": facts}


def ask(work: Work, step: Step, one: Proposed, index: int, because: Why) -> None:
    """Asks a person whether the call may be made; the step's other calls go on meanwhile."""
    policy = fingerprint(work.compiled.spec.policy.model_dump(mode="json"))
    rule = {"rule": because.rule, "unsure": because.unsure} if because.rule else {}
    if because.requested is None:
        shown = {**rule, **offered(work, step, one, one.tool), "payload": one.args, "edit_initial": one.args}
        shown |= because.instructed.shown() if because.instructed else {}
    else:
        shown = requested_input.offered(work, because.requested, one)
    questions.open_item(
        work,
        item="pre_action",
        scope=calls.command_id_of(step, step.turns, index),
        step_id=step.id,
        reason=because.reason,
        shown={"agent": step.agent, **shown},
        role=releases.ROLE if because.instructed else REVIEWER,
        on_expiry="error" if requested_input.asks_itself(shown) else "reject",
        bound=digest(one.tool, one.args_hash, policy, work.compiled.revision),
    )


def others(work: Work, step: Step, one: Proposed) -> tuple[str, ...]:
    """The tools of its agent that a person may have called in place of a call: those that its persona lets it use."""
    spec = work.compiled.spec
    agent = spec.agent(step.agent)
    return tuple(name for name in spec.tools_of(agent) if name != one.tool and not barred(agent, spec.tool(name)))


def offered(work: Work, step: Step, one: Proposed, tool: str) -> dict[str, JSON]:
    """What a person is told of calling a tool: for the call that its model proposed, or in its place."""
    spec, instead = work.compiled.spec.tool(tool), others(work, step, one)
    edited = f"{tool} is called once, with your arguments, if the protections let them pass"
    return {
        "tool": tool,
        "description": spec.description,
        "edit_of": "arguments",
        "edit_schema": spec.parameters,
        **({"takes_tools": list(instead)} if instead else {}),
        **({"effect": spec.effect} if work.compiled.under.number else {}),
        "approve": f"{tool} is called once, with exactly these arguments",
        "edit": f"{edited}; or another of its tools in its place" if instead else edited,
        "respond": "it is not called, and the agent goes on with your words as its result",
        "decline": "it is not called, and the agent goes on with your words as the call's error",
        "reject": f"it is not called, and {consequences.rejected(work)}",
        "expiry": "rejected by the system: it is not called",
    }
