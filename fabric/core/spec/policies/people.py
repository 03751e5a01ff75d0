"""A fabric says how long people have to answer, who is asked next, and where two people have to agree."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fabric.core.schema.limits import Unit, declare_late_setting, declare_limit, declare_setting
from fabric.core.schema.parts import Line, SpecGroup
from fabric.core.values.taxonomy import Tier

_PAGE = "docs/specification/reviews.md"
ONWARD_TO = ("owner",)
"""Reviews are passed on to these where a fabric names no others."""


class Humans(SpecGroup):
    """People have this long to answer. Then others may, and in some tiers two of them have to agree."""

    due_s: Annotated[float, Field(gt=0, le=30 * 86_400)] | None = declare_limit(
        None,
        "Answer within",
        Unit.SECONDS,
        "People have this long to answer a review. None: the tier decides: interactive 5 min, batch 24 h, high-stakes 8 h.",
        stops="answers are no longer accepted; the next step follows",
        source="tier default, docs/specification/protections.md",
    )
    reminder_at: Annotated[float, Field(gt=0, lt=1)] = declare_limit(
        0.5,
        "Remind after",
        Unit.SHARE,
        "People are reminded after this share of the time to answer.",
        stops="people are reminded",
        source=_PAGE,
    )
    onward_at: Annotated[float, Field(gt=0, lt=1)] = declare_limit(
        0.75,
        "Pass on after",
        Unit.SHARE,
        "After this share of the time to answer, further people may answer as well.",
        stops="further people may answer as well",
        source=_PAGE,
    )
    failure_rounds: Annotated[int, Field(ge=1)] = declare_limit(
        2,
        "Retries after approval",
        Unit.TIMES,
        "People may approve one more try of a failed step at most this often.",
        stops="the next failure aborts the run",
        source=_PAGE,
    )
    four_eyes: tuple[Tier, ...] = declare_setting(
        (),
        "Two people agree",
        "In these tiers two people must approve exactly the same content. Neither of them may have started the run.",
        source=_PAGE,
    )
    onward_to: tuple[Line, ...] = declare_setting(
        ONWARD_TO,
        "Pass on to",
        "Roles and users who may answer as well once a review is passed on.",
        source=_PAGE,
    )
    time_role: Line | None = declare_late_setting(
        "Asked about time",
        "Role or user who answers where a deadline has passed, in place of the role in the cell.",
        source=_PAGE,
    )


HUMAN_DUE_S: dict[Tier, float] = {Tier.INTERACTIVE: 300.0, Tier.BATCH: 86_400.0, Tier.HIGH_STAKES: 28_800.0}
UNDO_S: dict[Tier, float] = {Tier.INTERACTIVE: 3.0, Tier.BATCH: 10.0, Tier.HIGH_STAKES: 10.0}
"""Seconds that an answer in a browser waits before its run takes it (docs/specification/reviews.md); 0 by API and
command.
"""
