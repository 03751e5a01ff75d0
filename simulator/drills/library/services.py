"""Services for scenarios of a workspace: store, change, copy, import and delete one."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.db import IntegrityError, transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.texts.text import clean_text
from fabric.core.values.words import instant
from fabric.models import AuditLine, new_id
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.worker.process.duties import database_us
from simulator.drills.library.selectors import ScenarioView, scenario_get, shipped_views, stored_view
from simulator.drills.models.tables import StoredScenario
from simulator.scenarios.spec import chaostoolkit
from simulator.scenarios.spec.scenario import Scenario
from simulator.scenarios.spec.toml import dump, parse_scenario
from simulator.texts.problems import Unreadable
from simulator.texts.toml import BYTES_MAX

KEPT_MAX = 500
"""Scenarios that a workspace can have of its own."""
NAME_MAX = 100
_NAME = re.compile(r"^[ \t]*name[ \t]*=[^\n]*$", re.MULTILINE)
DOING = "write, change and delete scenarios"
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def check_scenario(source: str, origin: str = "") -> Scenario:
    """The scenario in a TOML text. Refused invalid with a sentence for each mistake, each with its line and path."""
    try:
        scenario = parse_scenario(clean_text(source)[0].replace("\r\n", "\n"), origin=origin)
    except Unreadable as error:
        raise Refused(error.told[0], code="invalid", field="source", problems=error.told) from None
    if len(scenario.name) > NAME_MAX:
        message = f"a name has at most {NAME_MAX} characters, and this one has {len(scenario.name)}: shorten it"
        raise Refused(message, code="invalid", field="name")
    return scenario


def scenario_save(
    *, actor: Actor, source: str, name: str = "", captured_from: str = "", copied_from: str = ""
) -> ScenarioView:
    """Keeps a scenario. ``name``: in place of the one that it says.

    Raises Refused: forbidden, invalid (with every mistake, its line and path), conflict (the name is taken, by a
    shipped one or one of the workspace's own; there are too many).
    """
    right_wanted(actor, Right.EDIT, DOING)
    text = _plain(source)
    if name:
        text = rename_scenario(text, check_scenario(text), name)
    scenario = check_scenario(text)
    _free(actor, scenario.name)
    now = database_us()
    row = StoredScenario(
        id=new_id(),
        workspace_id=actor.workspace_id,
        name=scenario.name,
        source=text,
        captured_from=captured_from,
        made_by=actor.name,
        made_at=now,
        changed_at=now,
    )
    told = {"captured_from": captured_from or None, "copied_from": copied_from or None}
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit_record(actor=actor, act=Act.SCENARIO_SAVED, subject=scenario.name, **told)
    except IntegrityError:
        raise _refuse_taken(scenario.name) from None
    return stored_view(row)


def scenario_change(*, actor: Actor, name: str, source: str, version: int) -> ScenarioView:
    """Change a scenario of the workspace, in the version that the author saw.

    Raises Refused: not_found, invalid, forbidden (another member's, and the actor is no operator), conflict (built
    in, or changed meanwhile).
    """
    seen = _own(actor, name)
    text = _plain(source)
    scenario = check_scenario(text)
    if scenario.name != seen.name:
        message = f"a scenario keeps its name, {seen.name}, as its drills are known by it: leave the name, or duplicate it under {scenario.name}"
        raise Refused(message, code="invalid", field="name")
    with transaction.atomic():
        rows = StoredScenario.objects.filter(workspace_id=actor.workspace_id, name=seen.name, version=version)
        changed = rows.update(source=text, changed_at=database_us(), version=version + 1)
        if changed:
            audit_record(actor=actor, act=Act.SCENARIO_CHANGED, subject=seen.name, version=version + 1)
    if not changed:
        raise _meanwhile(actor, name)
    return scenario_get(actor, name)


def scenario_delete(*, actor: Actor, name: str, version: int) -> None:
    """Delete a scenario of the workspace. Its drills stay, each with its own copy of the scenario.

    Raises Refused: not_found, forbidden, conflict (built in, or changed meanwhile).
    """
    seen = _own(actor, name)
    with transaction.atomic():
        rows = StoredScenario.objects.filter(workspace_id=actor.workspace_id, name=seen.name, version=version)
        gone, _ = rows.delete()
        if gone:
            audit_record(actor=actor, act=Act.SCENARIO_DELETED, subject=seen.name, version=version)
    if not gone:
        raise _meanwhile(actor, name)


def scenario_duplicate(*, actor: Actor, name: str, to: str = "") -> ScenarioView:
    """A copy of a shipped one, or of one of the workspace's own, to be changed. ``to``: its name; without it one that
    is free.

    Raises Refused: not_found, invalid, conflict (the name is taken).
    """
    seen = scenario_get(actor, name)
    named = {"name": to or free_name(actor, name), "copied_from": name, "captured_from": seen.captured_from}
    return scenario_save(actor=actor, source=seen.source, **named)


@dataclass(frozen=True, slots=True)
class Imported:
    """Imported scenario. ``left_out``: unsupported parts, a sentence each."""

    view: ScenarioView
    left_out: tuple[str, ...]


def scenario_import(*, actor: Actor, text: str, name: str = "", origin: str = "") -> Imported:
    """Keeps the scenario in a text: TOML, or an experiment of chaostoolkit in JSON. Raises Refused as ``scenario_save``
    does; invalid where nothing can be done here.
    """
    right_wanted(actor, Right.EDIT, DOING)
    scenario, source, left_out = importable(text, origin)
    kept = name or scenario.name
    return Imported(scenario_save(actor=actor, source=source, name=kept), left_out)


def scenario_check(*, actor: Actor, text: str) -> tuple[Scenario, str, tuple[str, ...]]:
    """Check the right to play or write scenarios, then call ``importable``. Refused forbidden before anything is
    read.
    """
    right_wanted(actor, Right.RUN, "check scenarios", anywhere=True)
    return importable(text)


def importable(text: str, origin: str = "") -> tuple[Scenario, str, tuple[str, ...]]:
    """The scenario in a text, TOML or JSON, as TOML, and what is left out. Refused invalid with every mistake."""
    text = _plain(text)
    if not text.lstrip().startswith("{"):
        return check_scenario(text, origin), text, ()
    try:
        found = chaostoolkit.import_experiment(text, origin=origin)
    except Unreadable as error:
        raise Refused(error.told[0], code="invalid", field="source", problems=error.told) from None
    if found.scenario is None:
        problems = ("nothing of this experiment can be done here, so it was not imported", *found.left_out)
        raise Refused(problems[0], code="invalid", field="source", problems=problems)
    try:
        return found.scenario, dump(found.scenario), found.left_out
    except ValueError:
        message = "the experiment has a tolerance with null in it, which TOML cannot say: take it out"
        raise Refused(message, code="invalid", field="source") from None


def free_name(actor: Actor, name: str) -> str:
    """Return a similar name that is free."""
    taken = {*shipped_views(), *_names(actor)}
    base = name[: NAME_MAX - 5]
    return next(one for n in range(2, KEPT_MAX + 60) if (one := f"{base}-{n}") not in taken)


def may_change(actor: Actor, seen: ScenarioView) -> bool:
    """Return True if the actor may change or delete it."""
    return (
        seen.origin != "shipped" and actor.may(Right.EDIT) and (actor.name == seen.made_by or actor.may(Right.OPERATE))
    )


def rename_scenario(text: str, scenario: Scenario, name: str) -> str:
    """Return the text under another name. It is written out again where its name has no line of its own. Raises
    Refused invalid for a wrong name.
    """
    if scenario.name == name:
        return text
    wanted = f'name = "{name}"'
    header = _HEADER.search(text)
    top, rest = (text[: header.start()], text[header.start() :]) if header else (text, "")
    changed = _NAME.sub(lambda _: wanted, top, count=1) + rest
    try:
        return changed if parse_scenario(changed).name == name else dump(scenario.model_copy(update={"name": name}))
    except Unreadable as error:
        told = next((one for one in error.told if "name:" in one), error.told[0])
        raise Refused(told.partition("name: ")[2] or told, code="invalid", field="name") from None


def _plain(text: str) -> str:
    if len(text) > BYTES_MAX:
        message = f"the scenario is longer than {BYTES_MAX:,} bytes: make it shorter"
        raise Refused(message, code="too_large", field="source")
    return clean_text(text)[0].replace("\r\n", "\n").replace("\r", "\n")


def _names(actor: Actor) -> list[str]:
    return list(StoredScenario.objects.filter(workspace_id=actor.workspace_id).values_list("name", flat=True))


def _free(actor: Actor, name: str) -> None:
    own = _names(actor)
    if name in own or name in shipped_views():
        raise _refuse_taken(name)
    if len(own) >= KEPT_MAX:
        message = f"this workspace has {KEPT_MAX} scenarios of its own, which is all there can be: delete one first"
        raise Refused(message, code="conflict", field="name")


def _refuse_taken(name: str) -> Refused:
    whose = "a shipped scenario" if name in shipped_views() else "another scenario of this workspace"
    return Refused(f"the name {name} is that of {whose}: give this one another", code="conflict", field="name")


def _own(actor: Actor, name: str) -> ScenarioView:
    right_wanted(actor, Right.EDIT, DOING)
    seen = scenario_get(actor, name)
    if seen.origin == "shipped":
        message = f"{seen.name} is shipped and stays as it is: duplicate it, and change the copy"
        raise Refused(message, code="conflict", field="scenario")
    if not may_change(actor, seen):
        message = f"{seen.name} is {seen.made_by}'s: changing it is for {seen.made_by}, {holders(Right.OPERATE)}; duplicate it"
        raise Refused(message, code="forbidden", field="actor")
    return seen


def _meanwhile(actor: Actor, name: str) -> Refused:
    """Return the author and time of the last change. Raises Refused not_found if it was deleted."""
    seen = scenario_get(actor, name)
    lines = AuditLine.objects.filter(workspace_id=actor.workspace_id, kind=Act.SCENARIO_CHANGED, subject=seen.name)
    who = lines.order_by("-at").values_list("actor", flat=True).first() or seen.made_by
    message = f"{who} changed {seen.name} at {instant(seen.changed_at)}, and it is version {seen.version} by now: look at it, and make your change to that"
    return Refused(message, code="conflict", field="version")
