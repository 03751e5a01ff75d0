"""Builds the evidence box of one review: its mechanism's rows, and the results that its stage has so far."""

from __future__ import annotations

from fabric.selectors.reviews.evidence.builders import BEFORE, BUILDERS, ROWS_MAX
from fabric.selectors.reviews.evidence.rows import Asked, EvidenceBox, EvidenceRow, excerpts
from fabric.selectors.runs.events.moments import build_contents


def build_box(asked: Asked) -> EvidenceBox:
    """Return the evidence of a review. Contents are masked; a reader without the right gets rows without contents."""
    builder = BUILDERS.get(str(asked.item.content.get("mechanism") or ""), BEFORE)
    rows, facts = builder.build(asked)
    finished, more = _finished(asked)
    shown = {row.seq for row in rows}
    return EvidenceBox(
        title=builder.title,
        rows=tuple(rows),
        facts=facts,
        finished=tuple(row for row in finished if row.seq not in shown),
        finished_more=more,
        unread=not asked.reads,
    )


def _finished(asked: Asked) -> tuple[tuple[EvidenceRow, ...], int]:
    """Return the results of the stage's finished parts, and the number of further ones."""
    if asked.moment is None or asked.state is None:
        return (), 0
    run = asked.state
    done = [
        step
        for step in run.steps.values()
        if step.stage == asked.item.stage and step.epoch == run.epoch and step.status == "done" and step.output_ref
    ]
    shown = done[:ROWS_MAX]
    contents = build_contents(asked.run.id, asked.moment, {step.output_ref for step in shown}).values
    where = asked.moment.where
    rows = tuple(
        EvidenceRow(
            says=f"{step.agent} finished",
            seq=where.get(step.output_ref, 0),
            parts=tuple(excerpts(contents.get(step.output_ref))),
        )
        for step in shown
    )
    return rows, len(done) - len(shown)
