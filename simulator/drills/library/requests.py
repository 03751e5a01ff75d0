"""Requests drills that play a scenario: one for each tier, in simulated time.

A digest covers everything that a scenario's verdict depends on: another digest makes the verdict stale.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from django.db import IntegrityError, transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import table_with
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import fingerprint
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import Revision, new_id
from fabric.selectors.fabrics.lookup import RevisionPage, revision_get, revision_spec
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs.start import REASON_CHARS_MAX
from fabric.worker.process.duties import database_us
from simulator.drills.library.selectors import ScenarioView, scenario_get
from simulator.drills.live.conditions import DrillMode, how_asked
from simulator.drills.models.tables import LIVE, OPEN_STATUSES, VIRTUAL, Drill
from simulator.drills.selectors.drill_views import DrillView, cell_digests
from simulator.drills.services.drill_stop import check_drill_stop
from simulator.drills.services.drills import DrillsAsked, find_seed
from simulator.faults import catalogue
from simulator.scenarios.promises.digests import NOT_COVERED, engine_version
from simulator.scenarios.spec.chaostoolkit import build_experiment
from simulator.scenarios.spec.scenario import Scalar, Scenario
from simulator.scenarios.spec.toml import parse_scenario
from simulator.texts.problems import Unreadable


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
) -> DrillsAsked:
    """Asks for drills of a fabric that play a scenario, one for each tier; ``all`` of its own.

    ``parameters``: in place of the scenario's own. ``seed``: without it the scenario's own. ``number``: of the
    revision; without it the published one. A tier in which the scenario waits or runs already is left out. ``wake``:
    called when the rows are there.
    ``mode``: ``virtual``, or ``live`` on this installation, with the caps of ``how_asked``.
    Raises Refused: not_found, invalid (a tier that the scenario does not have; parameters that do not fit, or an agent
    that the fabric has not; live, a fault that cannot be), conflict, forbidden, and of live ones unavailable.
    """
    actor = actor.place_at(fabric)
    right_wanted(actor, Right.RUN, "start drills")
    page, seen = revision_get(actor, fabric, number), scenario_get(actor, scenario)
    one = seen.readable()
    given = dict(parameters or {})
    wanted = tiers_meant(one, tiers)
    fits(page, one, given)
    how = _how(actor, page, one, mode, cap_usd_micros, cap_s)
    left = _list_free_tiers(page, seen.name, wanted, mode)
    picked = find_seed(one.seed if seed is None else seed)
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    rows = _rows(actor, page, seen, left, given, picked, why, how)
    try:
        with transaction.atomic():
            check_drill_stop(actor.workspace_id)
            for row in rows:
                row.save(force_insert=True)
            told = {"batch": rows[0].batch, "number": page.number, "tiers": list(map(str, left)), "seed": picked}
            subject, more = page.fabric.id, {"scenario": seen.name, "reason": why or None, **how.facts}
            audit_record(actor=actor, act=Act.DRILLS_ASKED, subject=subject, **told, **more)
    except IntegrityError:
        message = "another request for this scenario came at the same moment: look at the page again"
        raise Refused(message, code="conflict", field="tiers") from None
    wake()
    return DrillsAsked(rows[0].batch, tuple(row.id for row in rows), len(wanted) - len(left))


def fits(page: RevisionPage, scenario: Scenario, parameters: Mapping[str, Scalar]) -> None:
    """Refuse, with a sentence for each mistake, parameters that the scenario lacks and agents that the fabric lacks."""
    from simulator.scenarios.play.player import prepare_scenario  # It loads the engine and its world.

    try:
        prepare_scenario(page.spec, scenario, parameters)
    except catalogue.FaultRefused as error:
        told = tuple(map(str, error.problems))
        raise Refused(told[0], code="invalid", field="parameters", problems=told) from None


def can_be_live(scenario: Scenario) -> None:
    """Refused invalid, a sentence for each fault that cannot be injected live."""
    if problems := scenario.only_virtual():
        sentences = tuple(map(str, problems))
        raise Refused(sentences[0], code="invalid", field="mode", problems=sentences)


def _list_free_tiers(page: RevisionPage, name: str, wanted: Sequence[Tier], mode: str) -> list[Tier]:
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
) -> DrillMode:
    """Return the options of a request. Raises Refused as ``how_asked`` does, and invalid for a fault that cannot be
    live.
    """
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
    how: DrillMode,
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


SAID = {"name": "a", "title": "a", "description": "a", "tags": (), "contributions": {}, "seed": 1}
"""Parts of a scenario that no verdict depends on, and what stands in their place."""


def scenario_covers(spec: FabricSpec, scenario: Scenario, overrides: Mapping[str, Scalar], tier: Tier) -> str:
    """Return 128 bits in hex over the scenario with its parameters, the fabric, the tier's ladders, and the engine's
    version.

    Titles and seeds are left out: a verdict is about what is disturbed, and in what.
    """
    return _digest(_digest_fabric(spec, tier), scenario, overrides)


def _digest(of_fabric: str, scenario: Scenario, overrides: Mapping[str, Scalar]) -> str:
    plain = build_experiment(scenario.model_copy(update=SAID))
    return fingerprint([of_fabric, plain, {**scenario.parameters, **overrides}, engine_version()])


def _digest_fabric(spec: FabricSpec, tier: Tier) -> str:
    table = table_with(spec.decision_table)
    ladders = [table[failure, tier].model_dump(mode="json", include={"rungs"}) for failure in FailureType]
    return fingerprint([tier, ladders, spec.model_dump(mode="json", by_alias=True, exclude=set(NOT_COVERED))])


@lru_cache(maxsize=256)
def _digest_revision(revision_id: str, tier: Tier) -> str:
    return _digest_fabric(revision_spec(revision_id), tier)


@lru_cache(maxsize=4_096)
def _covers(revision_id: str, source: str, parameters: tuple[tuple[str, Scalar], ...], tier: Tier) -> str:
    return _digest(_digest_revision(revision_id, tier), parse_scenario(source), dict(parameters))


def covers_now(revision_id: str, source: str, parameters: Mapping[str, Scalar], tier: Tier) -> str:
    """The digest of a scenario in TOML in a revision; empty: it cannot be read."""
    try:
        return _covers(revision_id, source, tuple(sorted(parameters.items())), tier)
    except Unreadable:
        return ""


def drill_fresh(seen: DrillView, revision_id: str, source: str = "") -> bool:
    """Return True if a drill's verdict covers the revision. ``source``: the current scenario; without it, the
    drilled one.
    """
    if not seen.scenario:
        return seen.cell is not None and cell_digests(revision_id)[seen.cell] == seen.covers
    return covers_now(revision_id, source or seen.source, seen.parameters, seen.tier) == seen.covers
