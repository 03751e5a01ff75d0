"""Masks a drill for readers without the right to contents: decisions and times stay, sentences that may quote a content go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fabric.selectors.contents import UNREAD_LINE, line_for

if TYPE_CHECKING:
    from simulator.drills.selectors import DrillView

JSON = Any
SENTENCES = {"moments": "said", "decisions": "evidence"}
"""Parts of a story that hold sentences out of a journal, and in which field; ``unread`` beside it is the same without what may quote."""
PROBED = ("output", "said", "why_not")
"""Fields of a scenario's probe that may quote what a run came to."""


def mask_drill(seen: DrillView, *, reads: bool) -> DrillView:
    """Returns the drill as its reader sees it. ``reads``: the reader has the right to contents at its fabric."""
    if reads:
        return seen
    body = dict(seen.body)
    if isinstance(story := body.get("story"), dict):
        body["story"] = {part: _mask_story(run) for part, run in story.items()}
    if "lines" in body:
        body["lines"] = [{**line, "evidence": ""} for line in body["lines"]]
    if not seen.scenario:
        return replace(seen, body=body)
    # A promise of a scenario is about contents too: what was probed, and why it does not hold.
    if isinstance(steady := body.get("steady"), dict):
        body["steady"] = {part: _mask_probes(probes) for part, probes in steady.items()}
    if body.get("aborted"):
        body["aborted"] = UNREAD_LINE
    return replace(seen, body=body, why=line_for(seen.why, reads=False), parameters={})


def _mask_story(run: JSON) -> JSON:
    if not isinstance(run, dict):
        return run
    return {part: _mask_lines(given, SENTENCES[part]) if part in SENTENCES else given for part, given in run.items()}


def _mask_lines(given: list[Mapping[str, JSON]], field: str) -> list[dict[str, JSON]]:
    return [{**one, field: one.get("unread", UNREAD_LINE)} for one in given]


def _mask_probes(probes: JSON) -> JSON:
    if not isinstance(probes, list):
        return probes
    return [{**one, **{field: UNREAD_LINE for field in PROBED if one.get(field)}} for one in probes]
