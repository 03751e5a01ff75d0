"""Folds people's actions on a run as a whole."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.evolve.conversation import stop_clocks
from fabric.core.evolve.parts import Evolve, keep_run, with_step
from fabric.core.state.family import ChildAnswer
from fabric.core.state.kept_work import answer_named
from fabric.core.state.run import ORIGIN, Run, StageRun, Step, rewritten, step_id
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace


def _run_paused(run: Run, event: Event, fact: ev.RunPaused) -> Run:
    return replace(run, control=replace(run.control, paused=fact), talk=stop_clocks(run.talk, event.at))


def _run_resumed(run: Run, event: Event, fact: ev.RunResumed) -> Run:
    return replace(run, control=replace(run.control, paused=None))


def _run_forked(run: Run, event: Event, fact: ev.RunForked) -> Run:
    kept = {one.stage: StageRun(one.stage, run.epoch, 0, (), one.output_ref, left=True) for one in fact.stages}
    following = next(stage for stage in Stage if stage not in kept)
    steps = {step.id: step for step in map(_kept_step, fact.branches)} if Stage.FAN_OUT in kept else run.steps
    # No step has such an id, so that none replaces a kept part.
    answers = {
        f"kept.{one.branch}.{n}": ChildAnswer(one.output_ref, one.briefs, one.missing)
        for n, one in enumerate(fact.parts)
    }
    family = replace(run.family, answers=answers) if answers else run.family
    control = replace(run.control, forked=fact)
    stops = {f"{ORIGIN}{n}": said for n, said in enumerate(fact.stopped)}
    return replace(run, stages=kept, stage=following, steps=steps, control=control, family=family, stops=stops)


def _content_kept(run: Run, event: Event, fact: ev.ContentKept) -> Run:
    size = run.control.kept_bytes + event.content_bytes
    run = replace(run, control=replace(run.control, kept_bytes=size))
    found = answer_named(fact.what)
    if found is None:
        return run
    return replace(run, control=replace(run.control, answers=(*run.control.answers, (*found, event.content_ref))))


def _kept_step(kept: ev.KeptBranch) -> Step:
    key = step_id(Stage.FAN_OUT, kept.branch, 0, 0)
    return Step(key, Stage.FAN_OUT, kept.branch, 0, 0, kept.agent, status="done", output_ref=kept.output_ref)


def _output_kept(run: Run, event: Event, fact: ev.OutputKept) -> Run:
    return with_step(run, replace(run.steps[fact.step_id], status="done", output_ref=fact.answer_ref))


def _output_edited(run: Run, event: Event, fact: ev.OutputEdited) -> Run:
    """Put a person's output in place. It belongs to a finished step, to a stage before its end, or to a plan that was
    handed out.
    """
    kept = tuple(name for name in run.withheld if name not in (fact.step_id, f"stage:{fact.stage}"))
    run = replace(run, withheld=kept, stops=rewritten(run, fact.stage, fact.step_id))
    if fact.step_id:
        return with_step(run, replace(run.steps[fact.step_id], status="done", output_ref=event.content_ref))
    reached = run.stages[fact.stage]
    if reached.left:
        return replace(run, stages={**run.stages, fact.stage: replace(reached, output_ref=event.content_ref)})
    for step in [one for one in run.steps.values() if one.stage is fact.stage and one.status == "parked"]:
        run = with_step(run, replace(step, status="done"))
    return replace(run, stages={**run.stages, fact.stage: replace(reached, edited_ref=event.content_ref)})


def _guidance_given(run: Run, event: Event, fact: ev.GuidanceGiven) -> Run:
    return replace(run, replans={**run.replans, fact.stage: run.replans.get(fact.stage, 0) + 1})


TABLE: Mapping[str, Evolve] = {
    "cancel_accepted": keep_run,
    "terminate_accepted": keep_run,
    "run_paused": _run_paused,
    "run_resumed": _run_resumed,
    "run_forked": _run_forked,
    "content_kept": _content_kept,
    "output_kept": _output_kept,
    "output_edited": _output_edited,
    "guidance_given": _guidance_given,
}
