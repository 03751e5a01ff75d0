"""The page of one drill without a script: its lines with their evidence, the picture, the player, the steady state, and what was disturbed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import pytest

from console.pages.drills.lines import list_lines
from console.pages.drills.page import BREAKERS, find_player
from console.pages.drills.steady_state import SEAMS, list_disturbance_facts, list_phases
from console.pages.drills.timeline import LOOKS, find_picture
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.drills.batches.batch import batch_drill
from simulator.drills.models.tables import Drill
from simulator.drills.selectors.drills import drill_get
from simulator.drills.services.drills import drill_ask
from simulator.scenarios.spec.collection import FOLDER
from simulator.scenarios.stories.story import KINDS
from tests.simulator.drills.management.sources import source

PAGE = "/drills"
ONE = (FailureType.PROVIDER, Tier.BATCH)
RUN = "01a20ad2-a0da-75e8-86f0-896fd8797a56"
HOSTILE = '</title><script>alert("1")</script>\u202e'


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


@pytest.fixture
def driven(actor, small):
    """The id of a drill that was driven for real."""
    asked = drill_ask(actor=actor, fabric=small, cells=[ONE], seed=7)
    batch_drill(asked.batch, "h")
    return asked.drills[0]


def told(drill_id, **parts):
    """Changes parts of what is kept of a drill."""
    row = Drill.objects.get(id=drill_id)
    row.body = json.dumps(json.loads(row.body) | parts)
    row.save()


def test_every_kind_of_segment_seam_and_breaker_has_its_words():
    assert set(LOOKS) == KINDS
    assert set(SEAMS) == set(FailureType)
    assert set(BREAKERS) == {"", "closed", "half_open", "open"}


def test_each_line_has_its_evidence_its_count_and_its_instant(browser, driven):
    shown = text(browser.get(f"{PAGE}/{driven}"))
    assert re.search(r"1 retry 1 of 5 retry 1 of 5 503, attempt 1; scheduled attempt 2 in [\d.]+ m?s \(9\.0 retries left\): backoff with full jitter \+\d\.\d\d s Same", shown)  # fmt: skip
    assert re.search(r"5 wait for breaker 1 of 2 wait for breaker 1 of 2 the endpoint answered HTTP 503; the circuit breaker of provider scripted is open until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC \(3 times server error\); scheduled attempt \d in \d+ \w+ \([\d.]+ retries left\): its circuit breaker is open \+", shown)  # fmt: skip
    assert "escalate, last step" in shown
    assert re.search(r"11 run aborted run aborted \$0\.\d+ spent", shown)


def test_the_steady_state_stands_at_three_moments_with_the_numbers_that_were_watched(browser, driven):
    shown = text(browser.get(f"{PAGE}/{driven}"))
    assert "Before 5 of 5 within tolerance run completed, decides nothing about failures, costs $" in shown
    assert re.search(r"During 4 of 4 within tolerance invariants hold, \d+ events checked, \d+ attempts sent, none executed twice", shown)  # fmt: skip
    assert "After 5 of 5 within tolerance run completed" in shown


def test_the_disturbance_says_where_it_strikes_and_how_far_it_reaches(browser, driven):
    shown = text(browser.get(f"{PAGE}/{driven}"))
    assert (
        "fault every call comes back as 503, from its first call on injected at model calls of the finalizer" in shown
    )
    assert "blast radius 1 run, virtual clock, no call leaves, $0.00" in shown


def test_the_picture_has_the_ghost_what_was_expected_and_what_was_seen_and_a_table_that_says_the_same(browser, driven):
    page = browser.get(f"{PAGE}/{driven}").content.decode()
    (picture,) = re.findall(r'<svg class="ghosts".*?</ul>', page, flags=re.DOTALL)
    assert picture.count('class="gh"') == 5
    assert picture.count('class="g-fail"') - 1 == 8, "one stands in the legend"
    assert picture.count('class="g-retry"') - 1 == 5
    assert "folded" in picture
    assert " style=" not in page
    rows = re.search(r"Show as table.*?</table>", page, flags=re.DOTALL)[0]
    assert rows.count("back-off") >= 5
    assert rows.count("waits for a breaker") == 2
    assert "waits for a person" in rows


def test_the_player_stands_at_the_end_and_goes_to_any_moment_by_an_address(browser, driven):
    page = browser.get(f"{PAGE}/{driven}").content.decode()
    count = int(re.search(r"moment (\d+) of \1", page)[1])
    assert f'href="?at={count - 1}"' in page
    assert 'class="g-now"' not in page
    assert 'aria-current="step"' not in page
    first = browser.get(f"{PAGE}/{driven}?at=1").content.decode()
    assert f"moment 1 of {count}" in first
    assert 'id="player-previous" role="link" aria-disabled="true"' in first
    for asked, at in (("0", 1), ("99999", count), ("9999999", count), ("-1", count), ("x", count), ("²", count)):
        assert f"moment {at} of {count}" in browser.get(f"{PAGE}/{driven}", {"at": asked}).content.decode()


def test_a_moment_marks_its_line_and_its_instant_and_tells_the_state_so_far(browser, actor, driven):
    story = drill_get(actor, driven).body["story"]
    moments = story["disturbed"]["moments"]
    second = [n for n, one in enumerate(moments, 1) if one["kind"] == "retry_scheduled"][1]
    page = browser.get(f"{PAGE}/{driven}?at={second}").content.decode()
    (marked,) = re.findall(r'<tr aria-current="step">\s*<td class="n">(\d+)</td>', page)
    assert marked == "2"
    assert 'class="g-now"' in page
    assert re.search(r"retries</dt><dd>2, 8 tokens left", page)
    assert "<dt>stage</dt><dd>finalize" in page


def test_a_step_of_the_pages_script_gets_the_part_that_a_moment_changes(browser, driven):
    part = browser.get(f"{PAGE}/{driven}?at=2", HTTP_HX_REQUEST="true").content.decode()
    assert part.strip().startswith('<div id="drill-watch"')
    assert "moment 2 of" in part
    assert "<html" not in part


def test_a_run_that_can_be_looked_at_is_opened_at_the_event_of_each_line(browser, driven):
    run = Drill.objects.get(id=driven).run_id
    page = browser.get(f"{PAGE}/{driven}").content.decode()
    seq = json.loads(Drill.objects.get(id=driven).body)["story"]["disturbed"]["decisions"][0]["seq"]
    assert f'href="/runs/{run}?event={seq}"' in page
    assert f'id="open-run" href="/runs/{run}"' in page
    assert browser.get(f"/runs/{run}?event={seq}").status_code == 200
    Drill.objects.filter(id=driven).update(run_id=RUN)
    assert f"/runs/{RUN}" not in browser.get(f"{PAGE}/{driven}").content.decode()


def test_hostile_texts_of_a_story_stay_texts(browser, driven):
    body = json.loads(Drill.objects.get(id=driven).body)
    for one in (*body["story"]["disturbed"]["segments"], *body["story"]["disturbed"]["moments"]):
        one["said"] = HOSTILE
    for one in body["story"]["disturbed"]["decisions"]:
        one["evidence"] = HOSTILE
    for phase in ("before", "during", "after"):
        body["steady"][phase][0] |= {"said": HOSTILE, "why_not": HOSTILE}
    told(driven, **body)
    page = browser.get(f"{PAGE}/{driven}?at=3").content.decode()
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert page.count("alert(") > 5


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"story": None, "steady": None, "struck": None, "lines": None, "runs": None},
        {"story": {"disturbed": {"total_s": 1.0}}, "steady": {}},
        {"story": {"undisturbed": {"total_s": 1.0}}, "steady": {"before": []}},
    ],
)
def test_a_drill_without_a_story_has_its_page(browser, driven, body):
    Drill.objects.filter(id=driven).update(body=json.dumps(body))
    page = browser.get(f"{PAGE}/{driven}?at=3")
    assert page.status_code == 200
    assert "1 retry retry – Same" in text(page)
    assert "Replay" not in text(page)


def test_what_a_scenario_expects_of_the_disturbed_run_counts(actor, driven):
    steady = {"during": [{"probe": "state", "output": "failed", "why_not": "'failed' is not 'completed'"}]}
    seen = replace(drill_get(actor, driven), body={"steady": steady}, scenario="mine", source=source())
    (_, during, _) = list_phases(seen)
    assert (during.mark.tone, during.answer) == (
        "warn",
        "0 of 1 within tolerance; not compared with it: not checked during the fault",
    )
    expecting = source() + '\n[[expect]]\nprobe = "state"\ntolerance = "completed"\n'
    (_, during, _) = list_phases(replace(seen, source=expecting))
    assert (during.mark.tone, during.answer) == ("danger", "0 of 1 within tolerance")


def test_what_was_not_met_is_said_and_what_is_not_held_against_the_cell_as_well(actor, driven):
    seen = drill_get(actor, driven)
    steady = {"after": [{"probe": "state", "output": "failed", "said": "run failed", "why_not": "it ended failed"}]}
    (_, _, after) = list_phases(replace(seen, body={"steady": steady}))
    assert (after.mark.tone, after.broken_probes[0].why_not, after.held_probes) == ("danger", "it ended failed", "")
    (before, _, after) = list_phases(replace(seen, body={"steady": steady | {"not_judged": {"after": "a breaker"}}}))
    assert (after.mark.tone, after.answer) == ("warn", "0 of 1 within tolerance; not compared with it: a breaker")
    assert (before.mark.tone, before.answer) == ("neutral", "not asked")


@pytest.mark.parametrize(("not_judged", "tone"), [({}, "danger"), ({"after": "a breaker"}, "warn")])
def test_what_is_not_held_against_the_cell_is_no_red_line(browser, driven, not_judged, tone):
    probes = [{"probe": "state", "output": "failed", "said": "run failed", "why_not": "it ended failed"}]
    body = {"steady": {"before": [], "during": [], "after": probes, "not_judged": not_judged}}
    Drill.objects.filter(id=driven).update(body=json.dumps(body))
    page = browser.get(f"{PAGE}/{driven}").content.decode()
    assert re.findall(r'<small class="broken" data-tone="(\w+)">it ended failed</small>', page) == [tone]


def test_a_scenario_is_disturbed_while_it_is_disturbed(actor, driven):
    steady = {
        part: [{"probe": "state", "output": "failed", "why_not": "'failed' is not 'completed'"}]
        for part in ("before", "during", "after")
    }
    seen = replace(drill_get(actor, driven), scenario="endpoint-down", body={"steady": steady})
    assert [one.mark.tone for one in list_phases(seen)] == ["danger", "warn", "danger"]


def test_the_decisions_of_a_scenario_are_held_against_the_table_line_by_line(actor, driven):
    seen = drill_get(actor, driven)
    lines = [
        {"seq": 7, "expected": "provider_failure: retry", "observed": "provider_failure: retry", "evidence": "event 7"},
        {"seq": 9, "expected": "provider_failure: surface", "observed": "direct: abort", "evidence": "event 9"},
    ]
    shown = list_lines(replace(seen, scenario="endpoint-down", body={"lines": lines}), RUN)
    assert [(one.how, one.expected.words, one.observed.words) for one in shown] == [
        ("same", "provider failure: retry", "provider failure: retry"),
        ("deviates", "provider failure: surface", "direct: abort"),
    ]
    assert [one.address for one in shown] == [f"/runs/{RUN}?event=7", f"/runs/{RUN}?event=9"]
    assert shown[0].evidence == "event 7"


def test_a_scenario_says_what_it_strikes_and_when_it_stops(actor, driven):
    source = (FOLDER / "endpoint-down.toml").read_text()
    seen = replace(drill_get(actor, driven), scenario="endpoint-down", source=source, body={"struck": {}})
    facts = dict(list_disturbance_facts(seen))
    assert "calls" in facts["injected at"]
    unreadable = replace(seen, source="not toml [", body={"struck": {"unavailable": 2}})
    assert ("fault", "unavailable, hit 2 times") in list_disturbance_facts(unreadable)


def test_a_live_drill_says_that_it_is_one(actor, driven):
    seen = replace(drill_get(actor, driven), mode="live")
    assert dict(list_disturbance_facts(seen))["blast radius"].startswith("1 run on this installation's workers")


def test_without_a_story_there_is_nothing_to_draw_and_nothing_to_play():
    assert find_picture({}, []) is None
    assert find_player({}, "1") is None


# -- what the page gives away ------------------------------------------------------------------------------------------


def test_a_drill_is_copied_and_downloaded_as_a_test(browser, driven):
    page = browser.get(f"{PAGE}/{driven}")
    assert f'id="as-pytest" href="/drills/{driven}/pytest"' in page.content.decode()
    shown = browser.get(f"{PAGE}/{driven}/pytest").content.decode()
    assert 'data-copy="pytest-text"' in shown
    file = browser.get(f"{PAGE}/{driven}/pytest?form=file")
    assert file.headers["Content-Disposition"] == 'attachment; filename="test_provider_failure_batch.py"'
    assert file.content.decode() in unescape(shown)
    Drill.objects.filter(id=driven).update(mode="live")
    assert browser.get(f"{PAGE}/{driven}/pytest").status_code == 409
    assert "as-pytest" not in browser.get(f"{PAGE}/{driven}").content.decode()


@pytest.mark.parametrize(("form", "media"), [("html", "text/html"), ("json", "application/json"), ("junit", "application/xml")])  # fmt: skip
def test_reports_of_one_of_its_batch_and_of_the_coverage_are_downloads(browser, driven, form, media):
    batch = Drill.objects.get(id=driven).batch
    page = browser.get(f"{PAGE}/{driven}").content.decode()
    assert f'href="/drills/{driven}/report/{form}"' in page
    for address in (f"{driven}/report/{form}", f"batches/{batch}/report/{form}", f"report/{form}?fabric=small"):
        answer = browser.get(f"{PAGE}/{address}")
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith(media)
        assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
        assert b"provider" in answer.content


def test_reports_that_there_are_not(browser, driven):
    batch = Drill.objects.get(id=driven).batch
    for address in (f"{driven}/report/pdf", f"batches/{batch}/report/journal", "report/pdf?fabric=small", "none/report/json"):  # fmt: skip
        assert browser.get(f"{PAGE}/{address}").status_code == 404
    assert browser.get(f"{PAGE}/{driven}/report/journal").status_code == 409


def test_the_label_of_the_expected_row_ends_without_a_comma_where_no_end_is_expected(driven, actor):
    seen = drill_get(actor, driven)
    decided = {"seq": 5, "expected": "provider_failure: retry", "observed": "provider_failure: retry"}
    story = seen.body["story"]

    def label(lines):
        shown = list_lines(replace(seen, scenario="endpoint-down", body={"lines": lines, "story": story}))
        return re.search(r">(expected[^<]*)<", find_picture(story, shown).svg)[1]

    assert label([decided]) == "expected"
    assert label([decided, decided | {"observed": "provider_failure: surface"}]) == "expected, from line 2 on otherwise"
    ended = re.search(r">(expected[^<]*)<", find_picture(story, list_lines(seen)).svg)[1]
    assert ended == "expected, run aborted"


def test_the_link_to_the_test_copies_its_file_and_works_without_a_script(browser, driven):
    page = browser.get(f"{PAGE}/{driven}").content.decode()
    (link,) = re.findall(r'<a class="btn" id="as-pytest" href="([^"]+)" data-copy-file="([^"]+)"', page)
    assert "FOLDER is the folder of its source" in text(browser.get(link[0]))
    assert browser.get(link[1]).content.decode().startswith('"""')
