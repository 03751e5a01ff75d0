"""Asking for drills that play a scenario: one for each tier, in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from django.db import IntegrityError, transaction

from fabric.adapters.duties import database_us
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.taxonomy import Tier
from fabric.core.text import clean_text
from fabric.models import Revision, new_id
from fabric.selectors.fabrics import RevisionPage, revision_get
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs import REASON_CHARS_MAX
from simulator.drills.lever import lever_rests
from simulator.drills.live_asking import How, how_asked
from simulator.drills.models import LIVE, OPEN_STATUSES, VIRTUAL, Drill
from simulator.drills.services import Asked, seed_of
from simulator.library.covering import scenario_covers
from simulator.library.selectors import ScenarioView, scenario_get
from simulator.scenarios import catalogue
from simulator.scenarios.scenario import Scalar, Scenario

JSON = Any


def scenario_ask(
    *,
    actor: Actor,
    fabric: str,
    scenario: str,
    tiers: Sequence[Tier] | Literal["all"] = "all",
    parameters: Mapping[str, Scalar] | None = None,
    seed: int | None = None,
    number: int | None = None,
    reason: str = "",
    mode: str = VIRTUAL,
    cap_usd_micros: int | None = None,
    cap_s: int | None = None,
    wake: Callable[[], None] = lambda: None,
) -> Asked:
    """Asks for drills of a fabric that play a scenario, one for each tier; ``all`` of its own.

    ``parameters``: in place of the scenario's own. ``seed``: without it the scenario's own. ``number``: of the revision; without it the published one. A tier in which
    the scenario waits or runs already is left out. ``wake``: called when the rows are there.
    ``mode``: ``virtual``, or ``live`` on this installation, with the caps of ``live_asking``.
    Raises Refused: not_found, invalid (a tier that the scenario does not have; parameters that do not fit, or an agent that the fabric has not; live, a fault that cannot
    be), conflict, forbidden, and of live ones unavailable.
    """
    actor = actor.at(fabric)
    right_wanted(actor, Right.RUN, "ask for drills")
    page, seen = revision_get(actor, fabric, number), scenario_get(actor, scenario)
    one = seen.readable()
    given = dict(parameters or {})
    wanted = tiers_meant(one, tiers)
    fits(page, one, given)
    how = _how(actor, page, one, mode, cap_usd_micros, cap_s)
    left = _left(page, seen.name, wanted, mode)
    picked = seed_of(one.seed if seed is None else seed)
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    rows = _rows(actor, page, seen, left, given, picked, why, how)
    try:
        with transaction.atomic():
            lever_rests(actor.workspace_id)
            for row in rows:
                row.save(force_insert=True)
            told = {"batch": rows[0].batch, "number": page.number, "tiers": list(map(str, left)), "seed": picked}
            subject, more = page.fabric.id, {"scenario": seen.name, "reason": why or None, **how.told}
            audit_record(actor=actor, act=Act.DRILLS_ASKED, subject=subject, **told, **more)
    except IntegrityError:
        message = "somebody else asked for this scenario at the same moment: look at the page again"
        raise Refused(message, code="conflict", field="tiers") from None
    wake()
    return Asked(rows[0].batch, tuple(row.id for row in rows), len(wanted) - len(left))


def fits(page: RevisionPage, scenario: Scenario, parameters: Mapping[str, Scalar]) -> None:
    """Refused invalid, a sentence for each mistake, for parameters that are none of the scenario's, and for agents that the fabric has not."""
    from simulator.scenarios.playing import prepared  # It loads the engine and its world.

    try:
        prepared(page.spec, scenario, parameters)
    except catalogue.Refused as error:
        told = tuple(map(str, error.problems))
        raise Refused(told[0], code="invalid", field="parameters", problems=told) from None


def can_be_live(scenario: Scenario) -> None:
    """Refused invalid, a sentence for each fault that cannot be injected live."""
    if problems := scenario.only_virtual():
        sentences = tuple(map(str, problems))
        raise Refused(sentences[0], code="invalid", field="mode", problems=sentences)


def _left(page: RevisionPage, name: str, wanted: Sequence[Tier], mode: str) -> list[Tier]:
    """The tiers in which it neither waits nor runs. Raises Refused conflict where there is none."""
    mine = Drill.objects.filter(fabric_id=page.fabric.id, mode=mode, scenario=name, status__in=OPEN_STATUSES)
    open_now = set(mine.values_list("tier", flat=True))
    left = [tier for tier in wanted if str(tier) not in open_now]
    if not left:
        message = f"{name} waits to be played in {page.fabric.name}, or is played right now: wait for the verdict, or stop it first"
        raise Refused(message, code="conflict", field="tiers")
    return left


def _how(
    actor: Actor, page: RevisionPage, one: Scenario, mode: str, cap_usd_micros: int | None, cap_s: int | None
) -> How:
    """How it is played. Raises Refused as ``how_asked`` does, and invalid for a fault that cannot be live."""
    how = how_asked(actor, page.spec, mode, cap_usd_micros, cap_s)
    if mode == LIVE:
        can_be_live(one)
    return how


def tiers_meant(scenario: Scenario, tiers: Sequence[Tier] | Literal["all"]) -> tuple[Tier, ...]:
    """Those that are meant, in the scenario's order. Refused invalid for one that it is not for, and for none."""
    if tiers == "all":
        return scenario.tiers
    if missing := [tier for tier in tiers if tier not in scenario.tiers]:
        there = ", ".join(scenario.tiers)
        message = f"{scenario.name} is not for tier {missing[0]}; it is for {there}"
        raise Refused(message, code="invalid", field="tiers")
    wanted = tuple(tier for tier in scenario.tiers if tier in tiers)
    if not wanted:
        raise Refused("no tier is named: name at least one", code="invalid", field="tiers")
    return wanted


def _rows(
    actor: Actor,
    page: RevisionPage,
    seen: ScenarioView,
    tiers: Sequence[Tier],
    parameters: Mapping[str, Scalar],
    seed: int,
    reason: str,
    how: How,
) -> list[Drill]:
    batch, now, one = new_id(), database_us(), seen.readable()
    revision = Revision.objects.get(fabric_id=page.fabric.id, number=page.number)
    return [
        Drill(
            workspace_id=actor.workspace_id,
            fabric_id=page.fabric.id,
            revision_id=revision.id,
            number=page.number,
            mode=how.mode,
            cap_usd_micros=how.cap_of(one.failure),
            cap_s=how.cap_s,
            scenario=seen.name,
            source=seen.source,
            parameters=json.dumps(dict(parameters)),
            failure=str(one.failure or ""),
            tier=str(tier),
            seed=seed,
            covers=scenario_covers(page.spec, one, parameters, tier),
            batch=batch,
            place=place,
            asked_by=actor.name,
            via=actor.via,
            reason=reason,
            asked_at=now,
        )
        for place, tier in enumerate(tiers)
    ]
