"""The form of a scenario without a script: four choices, the TOML as its second tab, and all mistakes beside their fields."""

from __future__ import annotations

import re
from html import unescape

import pytest

from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.library.captures import scenario_capture
from simulator.drills.library.selectors import scenario_get
from simulator.drills.library.services import scenario_duplicate, scenario_save
from simulator.drills.models.tables import StoredScenario
from simulator.scenarios.spec.toml import parse_scenario
from tests.console.pages.scenarios.test_views import text
from tests.fabric.services.world import ran
from tests.people import member, signed_in
from tests.simulator.drills.library.test_captures import FAILING

NEW = "/scenarios/new"
SENT = {
    "tab": "form",
    "name": "mine",
    "title": "The finalizer is down",
    "description": "It answers 503 twice.",
    "fault": "unavailable",
    "v-who": "role:finalizer",
    "v-stage": "",
    "v-times": "2",
    "v-status": "503",
    "failure": "provider_failure",
    "tier": ["batch"],
    "end": "completed",
    "probe": ["violations", ""],
    "tolerance": ["0", ""],
}


def fields(page):
    return set(re.findall(r' name="(v-\w+)"', page.content.decode()))


def source_of(page):
    return unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", page.content.decode(), flags=re.DOTALL)[1])


def test_a_new_one_begins_as_a_form_with_the_choices_of_the_fabric(browser, small):
    page = browser.get(NEW)
    html = page.content.decode()
    assert fields(page) == {"v-who", "v-stage", "v-branch", "v-times", "v-every", "v-from_call", "v-status"}
    assert re.search(r'<option value="role:finalizer" selected>the finalizer', html)
    assert re.search(r'<option value="agent:\w+">\w+, asks \w+', html)
    for heading in ("1. Fault", "2. Where", "3. How often", "4. Expectation"):
        assert heading in text(page)


def test_another_fault_shows_its_own_fields(browser, small):
    page = browser.post(NEW, SENT | {"fault": "tool_slow", "do": "fields"})
    assert page.status_code == 200
    assert fields(page) == {"v-tool", "v-times", "v-every", "v-from_call", "v-delay_s"}
    assert 'value="The finalizer is down"' in page.content.decode()
    assert not StoredScenario.objects.exists()


def test_it_is_saved_and_is_the_scenario_that_was_chosen(browser, actor, small):
    answer = browser.post(NEW, SENT | {"do": "save"}, follow=True)
    assert answer.redirect_chain == [("/scenarios/mine", 302)]
    one = scenario_get(actor, "mine").scenario
    assert [each.fault for each in one.disturbance] == ["unavailable"]
    assert one.disturbance[0].values == {"role": "finalizer", "times": 2, "status": 503}
    assert [(each.probe, each.tolerance.write_value()) for each in one.expect] == [
        ("state", "completed"),
        ("violations", 0),
    ]
    assert list(one.tiers) == ["batch"]


def test_both_tabs_lead_to_each_other_and_say_the_same(browser, small):
    toml = browser.post(NEW, SENT | {"do": "toml"})
    source = source_of(toml)
    back = browser.post(NEW, {"do": "form", "source": source})
    assert 'id="note"' not in back.content.decode()
    assert source_of(browser.post(NEW, SENT | {"do": "toml"})) == source
    again = dict(re.findall(r'<input class="input" id="[^"]+" name="([^"]+)" value="([^"]+)"', back.content.decode()))
    assert again.items() >= {"name": "mine", "v-times": "2", "title": "The finalizer is down"}.items()
    assert not StoredScenario.objects.exists()


def test_what_the_form_cannot_say_opens_as_toml_with_one_sentence(browser, actor, small):
    scenario_duplicate(actor=actor, name="person-too-late", to="copied")
    page = browser.get("/scenarios/copied/edit")
    assert "The form cannot say this scenario: it has more than one disturbance." in text(page)
    assert parse_scenario(source_of(page)).name == "copied"
    assert "[parameters]" in source_of(browser.post("/scenarios/copied/edit", {"do": "form", "source": source_of(page), "version": "1"}))  # fmt: skip


def test_a_field_that_each_drill_may_set_goes_through_the_form(browser, actor, small):
    scenario_duplicate(actor=actor, name="endpoint-down", to="copied")
    page = browser.get("/scenarios/copied/edit").content.decode()
    assert re.search(r'name="s-status" value="1" checked', page)
    assert re.search(r'name="s-who" value="1" checked', page)
    assert not re.search(r'name="s-times" value="1" checked', page)
    sent = SENT | {"name": "copied", "v-status": "502", "s-status": "1", "version": "1", "do": "save"}
    assert browser.post("/scenarios/copied/edit", sent).status_code == 302
    one = scenario_get(actor, "copied").readable()
    assert (dict(one.parameters), one.disturbance[0].values["status"]) == ({"status": 502}, "${status}")
    wrong = browser.post("/scenarios/copied/edit", sent | {"v-status": "200", "version": "2"})
    assert wrong.status_code == 422
    assert 'id="e-v-status"' in wrong.content.decode()


def test_a_replayed_run_opens_as_toml_with_one_sentence(browser, actor):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    name = scenario_capture(actor=actor, run_id=run.id).view.name
    page = browser.get(f"/scenarios/{name}/edit")
    assert "The form cannot say this scenario: it replays a recorded run." in text(page)


def test_one_of_ones_own_is_changed_in_the_form(browser, actor, small):
    scenario_duplicate(actor=actor, name="tool-hangs", to="copied")
    page = browser.get("/scenarios/copied/edit").content.decode()
    assert re.search(r'name="name" value="copied"[^>]* readonly', page)
    sent = SENT | {"fault": "tool_hang", "v-times": "3", "version": "1", "do": "save"}
    assert browser.post("/scenarios/copied/edit", sent).status_code == 302
    one = scenario_get(actor, "copied")
    assert (one.scenario.disturbance[0].values, one.version) == ({"times": 3}, 2)
    assert browser.post("/scenarios/copied/edit", sent).status_code == 409
    assert browser.post("/scenarios/copied/edit", sent | {"version": "x"}).status_code == 422


def test_all_mistakes_stand_beside_their_fields_in_one_wave(browser, small):
    wrong = {"name": "My name", "title": "", "v-who": "role:nobody", "v-times": "-1", "tier": [], "probe": ["", "stat"], "tolerance": ["5", "1"], "do": "save"}  # fmt: skip
    answer = browser.post(NEW, SENT | wrong)
    assert answer.status_code == 422
    html = answer.content.decode()
    for field in ("name", "title", "v-who", "v-times", "tiers", "probe-0", "probe-1"):
        assert re.search(rf'id="e-{field}">', html), field
    assert "Not saved: 7 problems." in text(answer)
    assert 'value="-1"' in html
    assert not StoredScenario.objects.exists()


def test_a_taken_name_is_said_and_nothing_is_lost(browser, actor, small):
    scenario_save(actor=actor, source=source_of(browser.post(NEW, SENT | {"do": "toml"})))
    answer = browser.post(NEW, SENT | {"do": "save"})
    assert answer.status_code == 409
    assert "mine" in re.search(r'id="problems">(.*?)</ul>', answer.content.decode(), flags=re.DOTALL)[1]
    assert 'value="The finalizer is down"' in answer.content.decode()


def test_the_box_has_line_numbers_and_words_to_insert(browser, small):
    html = browser.get(f"{NEW}?as=toml").content.decode()
    numbers = re.search(r'id="numbers" aria-hidden="true">(.*?)</pre>', html, flags=re.DOTALL)[1].split()
    rows = int(re.search(r'rows="(\d+)"', html)[1])
    assert numbers == [str(n + 1) for n in range(rows)]
    assert 'data-insert="[[disturbance]]&#10;fault = &quot;unavailable&quot;&#10;"' in html
    assert re.search(r'class="btn s ghost scripted" data-insert', html), "without a script there is nothing to press"


def test_without_a_fabric_the_form_is_there(browser, actor):
    assert "4. Expectation" in text(browser.get(NEW))


@pytest.mark.parametrize("do", ["save", "toml", "fields"])
def test_who_may_not_edit_scenarios_saves_none(small, do):
    looking = signed_in(member("viola", "viewer"))
    assert looking.post(NEW, SENT | {"do": do}).status_code == 403
    assert not StoredScenario.objects.exists()
