"""Parses a person's edit in a review: a call's arguments, a payload at a gate, or a branch's brief.

An edit is checked by its type when it arrives, and then by all checks of the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Literal

from pydantic import BaseModel, ValidationError

from fabric.core import events as ev
from fabric.core.decision import guard, slices
from fabric.core.decision.prompt import find_missing_candidate
from fabric.core.decision.work import Work
from fabric.core.events.inputs import DecisionMade
from fabric.core.ladders import ladder
from fabric.core.mechanisms.contract import Proposal
from fabric.core.schema.payloads import TYPED, Aggregate, Brief, Outcome, Plan, Summary, Verdict, typed_json_schema
from fabric.core.state import demands
from fabric.core.state.failure import Failure
from fabric.core.state.judges import find_contract, is_judge
from fabric.core.state.run import OpenReview
from fabric.core.values.flow import Stage
from fabric.core.values.units import JSON

Of = Literal["payload", "brief"]
PAYLOADS: Mapping[Stage, type[BaseModel] | None] = {
    Stage.PLAN: Plan,
    Stage.FAN_OUT: None,
    Stage.FAN_IN: Aggregate,
    Stage.VALIDATE: Aggregate,
    Stage.FINALIZE: Outcome,
}
"""Type of a stage's output where a person may write it. For a fan-out they write one branch's answer (``Summary``),
or its verdict (``Verdict``). Total by test.
"""
PROBLEMS_MAX = 5


def offered_edit(work: Work, failure: Failure, item: str) -> dict[str, JSON]:
    """Return the edit that a person may make for a failure, as part of the review's content; "": none.

    ``edit_of``: the edited thing; ``edit_schema``: its JSON schema; ``edit_initial``: its present value.
    """
    payload = failure.payload
    if payload is not None and item in ("failure", "post_stage"):
        model = _model(work, failure.stage, failure.step_id)
        if model is None:
            return {}
        author = find_contract(work.run, work.compiled_fabric.spec, failure.stage, failure.step_id)
        if not author:
            return _offer("payload", _schema(work, model, failure.step_id), payload)
        return _offer("payload", typed_json_schema(model, work.compiled_fabric.spec.output_schemas[author]), payload)
    step = work.run.steps.get(failure.step_id)
    if step is None or step.stage is not Stage.FAN_OUT or is_judge(step) or slices.is_slice(step.agent):
        return {}
    return _offer("brief", _brief_schema(), slices.plan(work)["briefs"][step.brief])


@cache
def _brief_schema() -> JSON:
    return Brief.model_json_schema()


def _model(work: Work, stage: Stage, step_id: str) -> type[BaseModel] | None:
    """Return the type of the output of a stage, or a step of it."""
    if stage is not Stage.FAN_OUT or not step_id:
        return PAYLOADS[stage]
    return Verdict if _choices(work, step_id) else Summary


def _choices(work: Work, step_id: str) -> tuple[str, ...]:
    """Return the candidates of a step's verdict; empty for other outputs."""
    step = work.run.steps.get(step_id)
    return () if step is None or step.turn is None else step.turn.choices


def _schema(work: Work, model: type[BaseModel], step_id: str) -> JSON:
    schema = model.model_json_schema()
    if model is Verdict:
        schema["properties"]["winner"]["enum"] = list(_choices(work, step_id))
    return schema


def _offer(of: Of, schema: JSON, initial: JSON) -> dict[str, JSON]:
    return {"edit_of": of, "edit_schema": schema, "edit_initial": initial}


def shown_with(shown: JSON, given: DecisionMade, more: Mapping[str, JSON]) -> JSON:
    """Return a review's content after a proposed edit: the proposal, its author, the original, and the changes that
    follow.
    """
    kept = {name: value for name, value in shown.items() if name not in ("releases", "tool_from")}
    first = shown["edited_from"] if "edited_from" in shown else shown.get("edit_initial", shown.get("payload"))
    return {
        **kept,
        **more,
        **({} if shown.get("edit_of") == "brief" else {"payload": given.edited}),
        "edited": given.edited,
        "edited_from": first,
        "edited_by": given.actor,
        "edited_because": given.message,
        "edit_initial": given.edited,
    }


def problem(work: Work, review: OpenReview, given: DecisionMade) -> str:
    """Return why an edit of a failure cannot be taken as it stands. "": it can, or the answer is no edit."""
    if given.verb != "edit":
        return ""
    try:
        _parse_edit(work, review, given.edited)
    except ValidationError as error:
        return f"the edited content does not fit: {'; '.join(demands.list_problems(error)[:PROBLEMS_MAX])}"
    if _build_edit(work, review) == "payload":
        author = _author(work, review)
        misfits = work.compiled_fabric.evaluators.misfits(author, given.edited) if author else []
        step = work.run.steps.get(review.fact.step_id)
        misfits += [] if step is None else find_missing_candidate(step, given.edited)
        return f"the edited content does not fit: {'; '.join(misfits[:PROBLEMS_MAX])}" if misfits else ""
    wrong = _brief_problems(work, review, given.edited)
    return f"the edited brief cannot be given: {'; '.join(wrong[:PROBLEMS_MAX])}" if wrong else ""


def _build_edit(work: Work, review: OpenReview) -> Of:
    of: Of = work.ctx.contents.read(review.shown_ref)["edit_of"]
    return of


def _author(work: Work, review: OpenReview) -> str:
    """Return the agent whose output schema the data of an edited payload has to fit; "" if there is none."""
    if _build_edit(work, review) != "payload":
        return ""
    return find_contract(work.run, work.compiled_fabric.spec, review.fact.stage, review.fact.step_id)


def _parse_edit(work: Work, review: OpenReview, edited: JSON) -> JSON:
    """Return the edit in the form of its type. Raises ValidationError if it is not of that type."""
    fact = review.fact
    model: type[BaseModel] | None = Brief
    if _build_edit(work, review) == "payload":
        model = _model(work, fact.stage, fact.step_id)
    assert model is not None, "nothing may be edited here"
    if _author(work, review):
        model = TYPED[model]
    return model.model_validate(edited).model_dump(mode="json")


def _plan_with(work: Work, review: OpenReview, edited: JSON) -> JSON:
    plan, brief = slices.plan(work), work.run.steps[review.fact.step_id].brief
    briefs = [*plan["briefs"]]
    briefs[brief] = _parse_edit(work, review, edited)
    return {**plan, "briefs": briefs}


def _brief_problems(work: Work, review: OpenReview, edited: JSON) -> list[str]:
    """Return the problems of a plan with that brief by the gates between the plan and its branches."""
    plan = _plan_with(work, review, edited)
    before = slices.plan(work)["briefs"][work.run.steps[review.fact.step_id].brief]
    if edited["agent"] != before["agent"]:
        return [f"agent: the brief is {before['agent']}'s, and stays so"]
    found = demands.unmet(Stage.FAN_OUT, plan, work.compiled_fabric.spec)
    found += work.compiled_fabric.evaluators.hits(Stage.PLAN, plan)
    author = work.run.stages[Stage.PLAN].agents
    if author:
        dispatch = Proposal(kind="dispatch", stage=Stage.FAN_OUT, agent=author[0], payload=plan)
        found += [trip.message for trip in guard.judge(dispatch, work.view, work.compiled_fabric.spec.policy)]
    return found


def put(work: Work, review: OpenReview, given: DecisionMade) -> list[str]:
    """Put the edit in its place; return the steps that have to run once more for it."""
    fact = review.fact
    about = {"review_id": fact.review_id, "actor": given.actor}
    if _build_edit(work, review) == "payload":
        # The validate stage's output was made before: its step is the critic's.
        step_id = "" if fact.stage is Stage.VALIDATE else fact.step_id
        edited = ev.OutputEdited(stage=fact.stage, step_id=step_id, **about)
        work.emit(edited, {"output": _parse_edit(work, review, given.edited)})
        return []
    work.emit(ev.OutputEdited(stage=Stage.PLAN, **about), {"output": _plan_with(work, review, given.edited)})
    return ladder.rerunnable(work, Failure((), fact.stage, fact.step_id))
