"""The library's pages without a script: finding a scenario, what it says, a dry run, playing it, and writing, changing, copying and deleting one."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import get_args

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from console.pages.scenarios.words import ORIGINS, PORT_WORDS
from fabric.models import AuditLine
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import batch_drill
from simulator.drills.library.requests import scenario_ask
from simulator.drills.library.selectors import Origin, scenario_get
from simulator.drills.library.services import scenario_change, scenario_save
from simulator.drills.models.tables import Drill, StoredScenario
from simulator.faults.fault import PORTS
from simulator.scenarios.spec.chaostoolkit import build_experiment
from simulator.scenarios.spec.collection import library
from tests.fabric.services.world import SMALL, ran
from tests.people import member, signed_in
from tests.simulator.drills.library.test_captures import FAILING
from tests.simulator.drills.management.sources import source

PAGE = "/scenarios"
ONE = f"{PAGE}/rate-limit-then-healthy"
PLAY = {
    "fabric": "small",
    "tier": ["batch"],
    "seed": "1",
    "p-role": "finalizer",
    "p-times": "2",
    "p-retry_after_s": "3.0",
}


ALL = len(library()) + 1
"""How many scenarios there are: those that come with the program, and ``mine``."""


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def listed(response):
    return re.findall(r'<tr id="s-([a-z0-9-]+)">', response.content.decode())


@pytest.fixture
def vera(owner):
    """A member who is no operator."""
    return signed_in(member("vera"))


@pytest.fixture
def mine(actor, small):
    return scenario_save(actor=actor, source=source())


def test_every_word_is_there():
    assert set(ORIGINS) == set(get_args(Origin))
    assert set(PORT_WORDS) == set(PORTS)


def test_the_library_lists_every_scenario_with_what_is_known_of_it(browser, actor, small, mine):
    page = browser.get(PAGE)
    assert sorted(listed(page)) == sorted(["mine", *library()])
    shown = text(page)
    assert f"{ALL}, with the last verdicts for small@r1" in shown
    row = re.search(r'<tr id="s-endpoint-down">(.*?)</tr>', page.content.decode(), flags=re.DOTALL)[1]
    assert re.findall(r"</svg>([\w ]+)</span>", row) == ["Not run"] * 3
    assert "unavailable" in row
    assert "model calls" in row
    asked = scenario_ask(actor=actor, fabric="small", scenario="endpoint-down")
    batch_drill(asked.batch, "h")
    row = re.search(r'<tr id="s-endpoint-down">(.*?)</tr>', browser.get(PAGE).content.decode(), flags=re.DOTALL)[1]
    assert re.findall(r"</svg>(\w+)", row)[:3] == ["Pass"] * 3
    fabric_publish(actor=actor, source=SMALL.replace("Read.", "Read it."))
    row = re.search(r'<tr id="s-endpoint-down">(.*?)</tr>', browser.get(PAGE).content.decode(), flags=re.DOTALL)[1]
    assert re.findall(r"</svg>(\w+)", row)[:3] == ["Stale"] * 3


def groups(page):
    """The groups of the library by id: their count, and their scenarios."""
    found = re.findall(
        r'<details class="lib-group" id="g-(\w+)"(.*?)</details>', page.content.decode(), flags=re.DOTALL
    )
    return {
        key: (int(re.search(r'class="n">(\d+)<', inside)[1]), re.findall(r'<tr id="s-([a-z0-9-]+)">', inside))
        for key, inside in found
    }


def test_it_is_grouped_by_failure_with_counts(browser, small, mine):
    found = groups(browser.get(PAGE))
    rows = {str(one.failure or "none") for one in library().values()}
    assert set(found) == rows
    assert list(found)[-1] == "none"
    assert all(count == len(names) for count, names in found.values())
    assert "endpoint-down" in found["provider_failure"][1]
    assert "messages-lost" in found["none"][1]
    assert " open" not in re.search(r"<details class=\"lib-group\"[^>]*>", browser.get(PAGE).content.decode())[0]
    assert (
        " open" in re.search(r"<details class=\"lib-group\"[^>]*>", browser.get(f"{PAGE}?q=down").content.decode())[0]
    )
    assert '<th scope="col" class="num">Seed' not in browser.get(PAGE).content.decode()


def test_some_are_recommended_for_the_fabric_with_a_reason(browser, small):
    page = browser.get(PAGE).content.decode()
    shown = re.findall(r'<tr id="r-([a-z0-9-]+)">', page)
    assert 0 < len(shown) <= 8
    assert page.count('class="two why"') == len(shown)
    assert 'id="h-recommended"' not in browser.get(f"{PAGE}?q=down").content.decode(), "a search has its own results"


def test_one_is_run_from_its_row_in_every_tier_it_is_for(browser, small):
    page = browser.get(PAGE).content.decode()
    address = re.search(
        r'id="s-run-person-is-silent" form="run-form" formaction="([^"]+)" name="tier" value="all"', page
    )[1]
    fields = dict(
        re.findall(r'name="(fabric|do)" value="(\w+)"', page.partition('id="run-form"')[2].partition("</form>")[0])
    )
    answer = browser.post(address, fields | {"tier": "all"}, follow=True)
    assert "2 tiers are drilled in simulated time." in text(answer)
    assert set(Drill.objects.values_list("tier", flat=True)) == {"batch", "high_stakes"}


def test_who_may_not_start_drills_has_no_run_button_that_works(small):
    page = signed_in(member("viola", "viewer")).get(PAGE).content.decode()
    assert re.search(r'id="s-run-endpoint-down"[^>]* disabled', page)


@pytest.mark.parametrize(
    ("query", "some", "none"),
    [
        ("?q=ENDPOINT+down", "endpoint-down", "tool-error"),
        ("?q=unavailable", "endpoint-down", "tool-error"),
        ("?enters=provider_failure", "endpoint-down", "messages-lost"),
        ("?enters=none", "messages-lost", "endpoint-down"),
        ("?port=broker", "messages-lost", "endpoint-down"),
        ("?origin=ours", "mine", "endpoint-down"),
    ],
)
def test_it_is_searched_and_filtered(browser, mine, query, some, none):
    found = listed(browser.get(PAGE + query))
    assert some in found
    assert none not in found
    assert 0 < len(found) < ALL


def test_nothing_found_leads_back_to_all(browser, mine):
    shown = browser.get(f"{PAGE}?q=nosuchthing")
    assert f"No scenario matches. {ALL} are here." in text(shown)


def test_without_a_fabric_the_library_is_there_and_says_what_is_missing(browser, actor):
    assert "No fabric is published yet" in text(browser.get(PAGE))
    assert "No fabric is published yet" in text(browser.get(ONE))


def test_a_fabric_that_there_is_not_is_said(browser, small):
    assert browser.get(f"{PAGE}?fabric=nosuch").status_code == 404
    assert browser.get(f"{ONE}?fabric=nosuch").status_code == 404
    assert browser.get(f"{PAGE}/nosuch").status_code == 404


def test_one_says_what_it_does_in_words_with_its_parameters_as_fields(browser, small):
    page = browser.get(ONE)
    shown, html = text(page), page.content.decode()
    assert (
        "The endpoint answers 429 with a Retry-After: each model call of the finalizer, 2 times, to come again after 3.0 s."
        in shown
    )
    assert "infrastructure: no decision is promised, and the run ends as usual" in shown
    assert "simulated time: no call leaves the process, no money is spent ($0.00)" in shown
    assert "is completed" in shown
    assert re.search(r'<select class="input" id="p-role"', html)
    assert re.search(r'<input class="input" id="p-times" name="p-times" value="2"', html)
    assert "of retry after, at least 1" in shown
    assert "Edit" not in re.findall(r'id="scenario-change"', html)


def test_a_dry_run_says_which_calls_would_be_struck_and_asks_for_nothing(browser, small):
    answer = browser.post(f"{ONE}/ask", PLAY | {"do": "dry", "p-times": "1"})
    shown = text(answer)
    assert answer.status_code == 200
    assert "Dry run nothing was affected, nothing is saved" in shown
    assert "the 1st model call of the finalizer, to come again after 3.0 s" in shown
    assert "drill-finalizer finalize at" in shown
    assert "given a finalizer" in shown
    assert 'value="1"' in re.search(r'id="p-times"[^>]*', answer.content.decode())[0], "what was typed stays"
    assert not Drill.objects.exists()


def test_one_tier_is_played_and_leads_to_its_drill(browser, small):
    answer = browser.post(f"{ONE}/ask", PLAY | {"do": "run", "p-times": "3"})
    one = Drill.objects.get()
    assert answer["Location"] == f"/drills/{one.id}"
    assert (one.scenario, one.tier, one.seed) == ("rate-limit-then-healthy", "batch", 1)
    assert json.loads(one.parameters) == {"times": 3}, "only what is another than its own"
    batch_drill(one.batch, "h")
    page = text(browser.get(answer["Location"]))
    assert "rate-limit-then-healthy" in page
    assert "Pass" in page
    again = browser.get(answer["Location"]).content.decode()
    fields = dict(
        re.findall(
            r'<input type="hidden" name="(\w+)" value="([^"]*)"', again.split('id="drills-form"')[1].split("</form>")[0]
        )
    )
    assert browser.post(f"{ONE}/ask", {key: unescape(value) for key, value in fields.items()}).status_code == 302
    newest = Drill.objects.order_by("-id").first()
    assert (newest.parameters, newest.seed, newest.tier) == (one.parameters, one.seed, one.tier)


def test_several_tiers_are_played_and_shown_on_the_page(browser, small):
    answer = browser.post(f"{ONE}/ask", PLAY | {"tier": ["interactive", "batch"]}, follow=True)
    shown = text(answer)
    assert "2 tiers are drilled in simulated time." in shown
    assert "No worker is alive, so no drill runs." in shown
    assert Drill.objects.count() == 2
    again = browser.post(f"{ONE}/ask", PLAY | {"tier": ["interactive", "batch"]})
    assert again.status_code == 409
    assert "waits to be played in small" in text(again)


@pytest.mark.parametrize(
    ("sent", "said", "at"),
    [
        ({"p-times": "many"}, "'many' is not a whole number", "p-times"),
        ({"p-times": "0"}, "0 is too small; at least 1", "p-times"),
        ({"p-role": "nobody"}, "'nobody' is none of planner", "p-role"),
        ({"tier": []}, "Pick at least one tier.", "tier"),
        ({"tier": ["batsh"]}, "There is no such tier.", "tier"),
        ({"seed": "x"}, "Give the seed as a whole number, or none.", "seed"),
        ({"fabric": ""}, "Pick a fabric.", "fabric"),
        ({"p-nosuch": "1"}, "Parameters.nosuch: there is no such parameter", ""),
        ({"given": "[1"}, "The form was damaged on its way", ""),
    ],
)
def test_what_does_not_fit_is_said_beside_its_field_and_nothing_is_lost(browser, small, sent, said, at):
    answer = browser.post(f"{ONE}/ask", PLAY | {"p-retry_after_s": "4.5"} | sent)
    assert answer.status_code == 422
    html = answer.content.decode()
    assert said in unescape(html)
    if at:
        assert re.search(rf'id="e-{at}">\s*<p class="err">', html)
    assert 'value="4.5"' in html
    assert not Drill.objects.exists()


def test_the_part_that_changes_is_there_for_the_script_alone(browser, small):
    asked = browser.post(f"{ONE}/ask", PLAY)
    part = browser.get(f"{ONE}/live?fabric=small", headers={"HX-Request": "true"})
    assert "Queued" in text(part)
    assert "<html" not in part.content.decode()
    assert browser.get(f"{ONE}/live?fabric=small")["Location"] == f"{ONE}?fabric=small"
    assert asked.status_code == 302


def test_what_waits_is_stopped_from_its_page_by_its_starter(browser, vera, actor, small):
    browser.post(f"{ONE}/ask", PLAY)
    assert 'form="stop-form"' not in vera.get(ONE).content.decode()
    address = re.search(r'form="stop-form" formaction="([^"]+)"', browser.get(ONE).content.decode())[1]
    assert browser.post(address, {"fabric": "small"}).status_code == 302
    assert Drill.objects.get().status == "aborted"
    assert 'form="stop-form"' not in browser.get(ONE).content.decode()


# -- of one's own ------------------------------------------------------------------------------------------------------


def test_one_is_written_and_stands_in_the_library(browser, actor, small):
    page = browser.get(f"{PAGE}/new?as=toml")
    begins = unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", page.content.decode(), flags=re.DOTALL)[1])
    answer = browser.post(f"{PAGE}/new", {"source": begins}, follow=True)
    assert answer.redirect_chain == [(f"{PAGE}/my-scenario", 302)]
    assert "my-scenario is in the library." in text(answer)
    assert scenario_get(actor, "my-scenario").scenario.failure == "provider_failure"


EXPECT = '\n[[expect]]\nprobe = "state"\ntolerance = "completed"\n'


def test_what_is_expected_of_the_disturbed_run_is_shown(browser, actor, small):
    one = scenario_save(actor=actor, source=f"{source()}{EXPECT}")
    page = text(browser.get(f"{PAGE}/{one.name}"))
    assert "Expected of the disturbed run state " in page
    assert "Only its decisions are judged." not in page
    assert "Only its decisions are judged." in text(browser.get(ONE))


def test_every_mistake_is_listed_by_line_and_what_was_written_stays(browser, small):
    wrong = source().replace("finalizer", "finaliser").replace("title", "titel")
    answer = browser.post(f"{PAGE}/new", {"source": wrong})
    shown = text(answer)
    assert answer.status_code == 422
    assert "Not saved: 3 problems." in shown
    assert "Line 12, disturbance.0.role: 'finaliser' is none of" in shown
    assert wrong in unescape(answer.content.decode())
    assert not StoredScenario.objects.exists()


def test_a_file_is_imported_with_what_is_left_out(browser, actor, small):
    tree = build_experiment(library()["endpoint-down"]) | {"title": "Ours", "controls": []}
    tree["extensions"][0]["scenario"]["name"] = "ours"
    file = SimpleUploadedFile("e.json", json.dumps(tree).encode())
    answer = browser.post(f"{PAGE}/new", {"source": "", "file": file}, follow=True)
    assert "e.json, controls: controls are not applied here, and are left out." in text(answer)
    assert scenario_get(actor, "ours").scenario.title == "Ours"


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"source": ""}, "There is nothing here: write a scenario, paste one, or pick a file."),
        ({"source": "", "file": SimpleUploadedFile("x.toml", b"\xff\xfe")}, "x.toml is no UTF-8 text"),
        ({"source": "", "file": SimpleUploadedFile("x.toml", b"a" * 300_000)}, "x.toml has 300,000 bytes"),
    ],
)
def test_what_is_no_scenario_is_said(browser, small, sent, said):
    answer = browser.post(f"{PAGE}/new", sent)
    assert answer.status_code == 422
    assert said in text(answer)


def test_one_is_changed_in_the_version_that_was_seen(browser, actor, mine):
    address = f"{PAGE}/mine/edit"
    assert source() in unescape(browser.get(address).content.decode())
    changed = source(rest="times = 2\n")
    assert browser.post(address, {"source": changed, "version": "1"})["Location"] == f"{PAGE}/mine"
    late = browser.post(address, {"source": source(rest="times = 9\n"), "version": "1"})
    assert late.status_code == 409
    assert "Owner changed mine at 2" in text(late)
    assert "times = 9" in late.content.decode(), "nothing that was written is lost"
    assert scenario_get(actor, "mine").source == changed


def test_a_shipped_one_is_copied_and_the_copy_is_changed(browser, actor, small):
    assert browser.get(f"{PAGE}/tool-error/edit")["Location"] == f"{PAGE}/tool-error"
    answer = browser.post(f"{PAGE}/tool-error/duplicate", {"to": "our-tool-error"})
    assert answer["Location"] == f"{PAGE}/our-tool-error/edit"
    taken = browser.post(f"{PAGE}/tool-error/duplicate", {"to": "our-tool-error"})
    assert taken.status_code == 409
    assert "The name our-tool-error is that of another scenario" in text(taken)
    assert "is no name" in text(browser.post(f"{PAGE}/tool-error/duplicate", {"to": "No Name"}))


def test_one_is_deleted_once_it_was_confirmed_and_its_drills_stay(browser, actor, mine):
    asked = scenario_ask(actor=actor, fabric="small", scenario="mine")
    batch_drill(asked.batch, "h")
    assert 'name="version" value="1"' in browser.get(f"{PAGE}/mine").content.decode()
    answer = browser.post(f"{PAGE}/mine/delete", {"version": "1"}, follow=True)
    assert "mine was deleted." in text(answer)
    assert "mine" not in listed(answer)
    assert browser.get(f"/drills/{asked.drills[0]}").status_code == 200
    assert AuditLine.objects.filter(kind="scenario_deleted", subject="mine").count() == 1


def test_another_members_is_looked_at_and_copied_only(vera, actor, mine):
    page = vera.get(f"{PAGE}/mine").content.decode()
    assert 'id="scenario-change"' not in page
    assert "/delete" not in page
    assert vera.get(f"{PAGE}/mine/edit")["Location"] == f"{PAGE}/mine"
    assert vera.post(f"{PAGE}/mine/edit", {"source": source(), "version": "1"}).status_code == 403
    assert vera.post(f"{PAGE}/mine/delete", {"version": "1"}).status_code == 403
    assert vera.post(f"{PAGE}/mine/duplicate", {"to": "hers"}).status_code == 302


def test_what_was_changed_meanwhile_is_not_deleted(browser, actor, mine):
    scenario_change(actor=actor, name="mine", source=source(rest="times = 2\n"), version=1)
    assert browser.post(f"{PAGE}/mine/delete", {"version": "1"}).status_code == 409
    assert browser.post(f"{PAGE}/mine/delete", {}).status_code == 422
    assert StoredScenario.objects.count() == 1


def test_it_is_taken_away_as_a_file(browser, mine):
    toml, experiment = (browser.get(f"{PAGE}/mine/scenario.{end}") for end in ("toml", "json"))
    assert toml.content.decode() == source()
    assert toml["Content-Disposition"] == 'attachment; filename="mine.toml"'
    assert json.loads(experiment.content)["method"][0]["provider"]["fault"] == "unavailable"


def test_one_that_cannot_be_read_is_shown_with_why_and_can_be_mended(browser, actor, mine):
    StoredScenario.objects.update(source="name = 1\n")
    shown = text(browser.get(f"{PAGE}/mine"))
    assert "cannot read the scenario, so it cannot run" in shown
    assert "line 1, name: 1 is no text" in shown
    assert "Cannot be read" in text(browser.get(PAGE))
    assert browser.post(f"{PAGE}/mine/ask", PLAY).status_code == 422
    assert browser.get(f"{PAGE}/mine/scenario.json").status_code == 409
    assert browser.post(f"{PAGE}/mine/edit", {"source": source(), "version": "1"}).status_code == 302


# -- captured ----------------------------------------------------------------------------------------------------------


def test_a_run_that_met_a_failure_offers_to_be_kept_as_a_scenario(browser, actor):
    run = ran(actor, fabric_publish(actor=actor, source=FAILING["server_error"]).name)
    address = f"/runs/{run.id}/scenario"
    assert f'href="{address}"' in browser.get(f"/runs/{run.id}").content.decode()
    shown = text(browser.get(address))
    assert "The recorded run is replayed: 3 model calls (3 without an answer)." in shown
    assert "Nothing is left out." in shown
    answer = browser.post(address, {"name": "what-broke"}, follow=True)
    assert answer.redirect_chain == [("/scenarios/what-broke?fabric=small", 302)]
    assert f"Captured from run {run.id}" in text(answer)
    again = browser.post(address, {"name": "what-broke"})
    assert again.status_code == 409
    assert "The name what-broke is that of another scenario" in text(again)
    assert browser.post(address, {"name": "x" * 101}).status_code == 422


def test_a_run_that_met_nothing_offers_nothing(browser, actor, small):
    run = ran(actor, small)
    assert f"/runs/{run.id}/scenario" not in browser.get(f"/runs/{run.id}").content.decode()
    assert "Nothing of this run can be made to happen again, as none of its calls failed." in text(
        browser.get(f"/runs/{run.id}/scenario")
    )
    assert browser.post(f"/runs/{run.id}/scenario", {"name": "x"}).status_code == 409
