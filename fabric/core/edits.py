"""What a person may write in place of what they are asked about: the arguments of a call, the payload that a gate held, the brief of a branch.

What is written is checked by its type when it arrives, and then by everything that checked what it stands in place of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from fabric.core import demands, guard, ladder
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.inputs import DecisionMade
from fabric.core.judges import is_judge
from fabric.core.mechanisms.contract import Proposal
from fabric.core.payloads import TYPED, Aggregate, Brief, Outcome, Plan, Summary, Verdict, typed_json_schema
from fabric.core.prompt import for_nobody
from fabric.core.run import OpenQuestion
from fabric.core.topologies import slices
from fabric.core.typed_output import contract_of
from fabric.core.work import Work

JSON = Any
Of = Literal["payload", "brief"]
PAYLOADS: Mapping[Stage, type[BaseModel] | None] = {
    Stage.PLAN: Plan,
    Stage.FAN_OUT: None,
    Stage.FAN_IN: Aggregate,
    Stage.VALIDATE: Aggregate,
    Stage.FINALIZE: Outcome,
}
"""What a stage passes on, where a person may write it; of a fan-out they write what one branch said (``Summary``), or its verdict (``Verdict``). Total by test."""
PROBLEMS_MAX = 5


def offered(work: Work, failure: Failure, item: str) -> dict[str, JSON]:
    """What a person may write about a failure, for the content that they are shown; empty: nothing.

    ``edit_of``: what it is; ``edit_schema``: its JSON schema; ``edit_initial``: what stands there.
    """
    payload = failure.payload
    if payload is not None and item in ("failure", "post_stage"):
        model = _model(work, failure.stage, failure.step_id)
        if model is None:
            return {}
        author = contract_of(work.run, work.compiled.spec, failure.stage, failure.step_id)
        if not author:
            return _offer("payload", _schema(work, model, failure.step_id), payload)
        return _offer("payload", typed_json_schema(model, work.compiled.spec.typed[author]), payload)
    step = work.run.steps.get(failure.step_id)
    if step is None or step.stage is not Stage.FAN_OUT or is_judge(step) or slices.is_slice(step.agent):
        return {}
    return _offer("brief", Brief.model_json_schema(), slices.plan(work)["briefs"][step.brief])


def _model(work: Work, stage: Stage, step_id: str) -> type[BaseModel] | None:
    """The type of what a stage, or a step of it, has to pass on."""
    if stage is not Stage.FAN_OUT or not step_id:
        return PAYLOADS[stage]
    return Verdict if _choices(work, step_id) else Summary


def _choices(work: Work, step_id: str) -> tuple[str, ...]:
    """Whom what a step says may be for, where that is a verdict."""
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
    """What is asked about once somebody proposes something else: that, with who wrote it and what stood there first, and what else is other with it."""
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


def problem(work: Work, question: OpenQuestion, given: DecisionMade) -> str:
    """Why an edit of a failure cannot be taken as it stands; empty when it can, or when it is none."""
    if given.verb != "edit":
        return ""
    try:
        _written(work, question, given.edited)
    except ValidationError as error:
        return f"what was edited does not fit: {'; '.join(demands.problems_of(error)[:PROBLEMS_MAX])}"
    if _of(work, question) == "payload":
        author = _author(work, question)
        misfits = work.compiled.evaluators.misfits(author, given.edited) if author else []
        step = work.run.steps.get(question.fact.step_id)
        misfits += [] if step is None else for_nobody(step, given.edited)
        return f"what was edited does not fit: {'; '.join(misfits[:PROBLEMS_MAX])}" if misfits else ""
    wrong = _brief_problems(work, question, given.edited)
    return f"the edited brief cannot be given: {'; '.join(wrong[:PROBLEMS_MAX])}" if wrong else ""


def _of(work: Work, question: OpenQuestion) -> Of:
    of: Of = work.ctx.contents.read(question.shown_ref)["edit_of"]
    return of


def _author(work: Work, question: OpenQuestion) -> str:
    """The agent whose output schema the data of an edited payload has to fit; empty: it has none."""
    if _of(work, question) != "payload":
        return ""
    return contract_of(work.run, work.compiled.spec, question.fact.stage, question.fact.step_id)


def _written(work: Work, question: OpenQuestion, edited: JSON) -> JSON:
    """What was written, as its type has it. ValidationError when it is not of that type."""
    fact = question.fact
    model: type[BaseModel] | None = Brief
    if _of(work, question) == "payload":
        model = _model(work, fact.stage, fact.step_id)
    assert model is not None, "nothing may be edited here"
    if _author(work, question):
        model = TYPED[model]
    return model.model_validate(edited).model_dump(mode="json")


def _plan_with(work: Work, question: OpenQuestion, edited: JSON) -> JSON:
    plan, brief = slices.plan(work), work.run.steps[question.fact.step_id].brief
    briefs = [*plan["briefs"]]
    briefs[brief] = _written(work, question, edited)
    return {**plan, "briefs": briefs}


def _brief_problems(work: Work, question: OpenQuestion, edited: JSON) -> list[str]:
    """What the gates between the plan and its branches say of a plan with that brief."""
    plan = _plan_with(work, question, edited)
    before = slices.plan(work)["briefs"][work.run.steps[question.fact.step_id].brief]
    if edited["agent"] != before["agent"]:
        return [f"agent: the brief is {before['agent']}'s, and stays so"]
    found = demands.unmet(Stage.FAN_OUT, plan, work.compiled.spec)
    found += work.compiled.evaluators.hits(Stage.PLAN, plan)
    author = work.run.stages[Stage.PLAN].agents
    if author:
        dispatch = Proposal(kind="dispatch", stage=Stage.FAN_OUT, agent=author[0], payload=plan)
        found += [trip.message for trip in guard.judge(dispatch, work.view, work.compiled.spec.policy)]
    return found


def put(work: Work, question: OpenQuestion, given: DecisionMade) -> list[str]:
    """Puts what was written in its place; the steps that have to run once more for it."""
    fact = question.fact
    about = {"escalation_id": fact.escalation_id, "actor": given.actor}
    if _of(work, question) == "payload":
        # What is validated was made before: the step of that stage is its critic's.
        step_id = "" if fact.stage is Stage.VALIDATE else fact.step_id
        edited = ev.OutputEdited(stage=fact.stage, step_id=step_id, **about)
        work.emit(edited, {"output": _written(work, question, given.edited)})
        return []
    work.emit(ev.OutputEdited(stage=Stage.PLAN, **about), {"output": _plan_with(work, question, given.edited)})
    return ladder.rerunnable(work, Failure((), fact.stage, fact.step_id))
