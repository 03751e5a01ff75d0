"""Opens steps once more: for the call that failed in one, or from its beginning."""

from __future__ import annotations

from typing import Any

from fabric.core import calls, judging, kept_steps, ladder
from fabric.core import events as ev
from fabric.core.judges import is_judge
from fabric.core.run import Step
from fabric.core.work import Work

JSON = Any


def call_again(work: Work, step_id: str, said: str) -> None:
    """Opens a step once more for the call that failed in it, or that was refused and is let pass: all that was done before stands. ``said``: a person's words; empty: none."""
    old, passes = work.run.steps[step_id], kept_steps.made_now(work.run, step_id)
    calls.let_go_all(work, "its failed call is made again", step_id)
    key = ladder.next_id(work, old)
    opened = ev.StepOpened(
        step_id=key,
        stage=old.stage,
        branch=old.branch,
        agent=old.agent,
        round=old.round + 1,
        approved=True,
        keeps=True,
        passes=passes,
    )
    work.emit(opened)
    if said:
        work.emit(ev.MessageInjected(step_id=key), {"text": said})


def rerun(
    work: Work, step_ids: list[str], note: str, *, approved: bool = False, agent: str = "", said: str = ""
) -> None:
    """Opens those steps once more, each with a note about what was wrong. ``approved``: a person said so, the last rung is next. ``agent``: who does
    them; empty: who did before. ``said``: the note is a person's words, which hold for what is tried after it too.
    """
    for key in step_ids:
        old = work.run.steps[key]
        calls.let_go_all(work, "the step runs once more", key)
        work.emit(
            ev.StepOpened(
                step_id=ladder.next_id(work, old),
                stage=old.stage,
                branch=old.branch,
                agent=agent or old.agent,
                round=old.round + 1,
                approved=approved,
            ),
            judging.again(work, old, note) if is_judge(old) else _note(work, old, note, said),
        )


def _note(work: Work, old: Step, note: str, said: str) -> JSON:
    """What a step is opened with once more. A person's words about an earlier try go on with it, until a person says something else."""
    before = work.ctx.contents.read(old.note_ref).get("said", "") if old.note_ref else ""
    if said or not before:
        return {"text": note} | ({"said": said} if said else {})
    return {"text": f"{note}\n\nA person had said about it: {before}", "said": before}
