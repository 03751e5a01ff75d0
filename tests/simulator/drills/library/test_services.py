"""Scenarios that a workspace keeps: written, changed in the version that was seen, copied, imported, deleted; each of it audited."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fabric.models import AuditLine
from fabric.selectors.errors import Refused
from simulator.drills.library import services
from simulator.drills.library.selectors import scenario_get, scenarios_list
from simulator.drills.library.services import (
    scenario_change,
    scenario_delete,
    scenario_duplicate,
    scenario_import,
    scenario_save,
)
from simulator.drills.models.tables import StoredScenario
from simulator.scenarios.spec.chaostoolkit import build_experiment
from simulator.scenarios.spec.collection import FOLDER, library
from simulator.scenarios.spec.toml import parse_scenario
from tests.simulator.drills.management.sources import source


def acts(kind):
    return [(line.subject, line.actor, json.loads(line.body)) for line in AuditLine.objects.filter(kind=kind)]


def refused(act, **given):
    with pytest.raises(Refused) as caught:
        act(**given)
    return caught.value


@pytest.fixture
def mine(actor):
    return scenario_save(actor=actor, source=source())


def test_one_is_kept_and_stands_before_the_shipped_ones(actor, mine):
    assert (mine.origin, mine.made_by, mine.version, mine.source) == ("ours", "owner", 1, source())
    found = scenarios_list(actor)
    assert [one.name for one in found] == ["mine", *library()]
    assert {one.origin for one in found[1:]} == {"shipped"}
    assert scenario_get(actor, "mine") == mine
    assert acts("scenario_saved") == [("mine", "owner", {})]


def test_a_shipped_one_has_its_source_word_for_word(actor):
    seen = scenario_get(actor, "tool-error")
    assert (seen.source, seen.scenario) == ((FOLDER / "tool-error.toml").read_text(), library()["tool-error"])


@pytest.mark.parametrize("name", ["mine", "tool-error"])
def test_a_name_is_taken_once(actor, mine, name):
    found = refused(scenario_save, actor=actor, source=source(name))
    assert (found.code, found.field) == ("conflict", "name")
    assert StoredScenario.objects.count() == 1


def test_another_workspace_has_names_of_its_own(actor, mine, stranger):
    assert scenario_save(actor=stranger, source=source()).name == "mine"
    assert [one.name for one in scenarios_list(stranger) if one.origin == "ours"] == ["mine"]


def test_every_mistake_is_told_by_line_and_path_and_nothing_is_kept(actor):
    found = refused(
        scenario_save, actor=actor, source=source().replace("finalizer", "finaliser").replace("title", "titel")
    )
    assert (found.code, found.field) == ("invalid", "source")
    assert [one.split(": ")[0] for one in found.problems] == [
        "line 1, title", "line 2, titel", "line 12, disturbance.0.role",
    ]  # fmt: skip
    assert not StoredScenario.objects.exists()


def test_there_are_so_many_and_no_more(actor, mine, monkeypatch):
    monkeypatch.setattr(services, "KEPT_MAX", 1)
    assert "which is all there can be" in refused(scenario_save, actor=actor, source=source("other")).message


def test_a_change_is_made_to_the_version_that_was_seen(actor, mine, vera):
    changed = scenario_change(actor=actor, name="mine", source=source(rest="times = 2\n"), version=1)
    assert (changed.version, changed.scenario.disturbance[0].values["times"]) == (2, 2)
    late = refused(scenario_change, actor=actor, name="mine", source=source(), version=1)
    assert late.code == "conflict"
    assert late.message.startswith("owner changed mine at 2")
    assert "it is version 2 by now" in late.message
    assert scenario_get(actor, "mine").source == source(rest="times = 2\n")
    assert acts("scenario_changed") == [("mine", "owner", {"version": 2})]


def test_it_keeps_its_name(actor, mine):
    found = refused(scenario_change, actor=actor, name="mine", source=source("other"), version=1)
    assert (found.code, found.field) == ("invalid", "name")


def test_a_shipped_one_stays_as_it_is(actor):
    for act, more in ((scenario_change, {"source": source("tool-error")}), (scenario_delete, {})):
        assert (
            "is shipped and stays as it is" in refused(act, actor=actor, name="tool-error", version=0, **more).message
        )


def test_another_members_is_changed_by_operators_only(actor, mine, vera):
    for act, more in ((scenario_change, {"source": source()}), (scenario_delete, {})):
        assert refused(act, actor=vera, name="mine", version=1, **more).code == "forbidden"
    theirs = scenario_save(actor=vera, source=source("hers"))
    scenario_change(actor=vera, name="hers", source=source("hers", rest="times = 2\n"), version=theirs.version)
    operator = replace(vera, name="otto", roles=frozenset({"editor", "operator"}))
    scenario_delete(actor=operator, name="hers", version=2)
    assert acts("scenario_deleted") == [("hers", "otto", {"version": 2})]


def test_what_was_changed_meanwhile_is_not_deleted(actor, mine):
    scenario_change(actor=actor, name="mine", source=source(rest="times = 2\n"), version=1)
    assert refused(scenario_delete, actor=actor, name="mine", version=1).code == "conflict"
    scenario_delete(actor=actor, name="mine", version=2)
    assert refused(scenario_delete, actor=actor, name="mine", version=2).code == "not_found"


def test_a_copy_keeps_every_comment_and_has_a_name_that_is_free(actor):
    names = [scenario_duplicate(actor=actor, name="endpoint-down").name for _ in range(2)]
    assert names == ["endpoint-down-2", "endpoint-down-3"]
    copy = scenario_get(actor, "endpoint-down-2")
    assert copy.source == scenario_get(actor, "endpoint-down").source.replace(
        'name = "endpoint-down"', 'name = "endpoint-down-2"'
    )
    assert acts("scenario_saved")[0] == ("endpoint-down-2", "owner", {"copied_from": "endpoint-down"})
    named = scenario_duplicate(actor=actor, name="endpoint-down-2", to="another")
    assert named.scenario == copy.scenario.model_copy(update={"name": "another"})


def test_a_copy_s_name_has_to_be_one(actor):
    found = refused(scenario_duplicate, actor=actor, name="endpoint-down", to="No Name")
    assert (found.code, found.field) == ("invalid", "name")
    assert found.message.startswith("'No Name' is no name; use lower-case letters")


def test_a_name_that_does_not_stand_alone_on_its_line_is_changed_all_the_same(actor):
    text = source().replace('name = "mine"', '"name" = "mine"')
    assert scenario_save(actor=actor, source=text, name="other").scenario == parse_scenario(source("other"))


def test_an_experiment_is_imported_with_what_is_left_out(actor):
    tree = build_experiment(parse_scenario(source())) | {"controls": []}
    found = scenario_import(actor=actor, text=json.dumps(tree), origin="e.json")
    assert found.view.scenario == parse_scenario(source())
    assert found.left_out == ("e.json, controls: controls are not applied here, and are left out",)
    nothing = {
        "title": "t",
        "description": "d",
        "method": [{"type": "action", "name": "x", "provider": {"type": "process"}}],
    }
    none = refused(scenario_import, actor=actor, text=json.dumps(nothing))
    assert none.problems[0] == "nothing of this experiment can be done here, so it was not imported"
    assert any("can be run here" in one or "cannot be run here" in one for one in none.problems[1:])


def test_windows_line_ends_and_what_is_no_text_are_put_right(actor):
    assert scenario_import(actor=actor, text=source().replace("\n", "\r\n")).view.source == source()


def test_one_that_this_version_cannot_read_is_listed_and_says_why(actor, mine):
    StoredScenario.objects.filter(name="mine").update(source="name = 1\n")
    seen = scenario_get(actor, "mine")
    assert (seen.scenario, seen.title) == (None, "mine")
    assert seen.problems
    assert refused(seen.readable).code == "conflict"
    assert scenario_change(actor=actor, name="mine", source=source(), version=1).scenario is not None
