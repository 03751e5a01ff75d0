"""The drills' pages without a script: coverage, asking, stopping, and one drill with its two chains."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from console.pages.drills import renderings
from console.site.sentences import sentence
from console.words.drills import CELLS, ENDED, LINES, STRIKES, align_chains
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import AuditLine
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.models.tables import Drill, Status
from simulator.drills.selectors.drill_views import State
from simulator.drills.services.drills import drill_ask
from simulator.scenarios.play.verdicts import HEADLINES, Deviation, deviate
from tests.fabric.services.world import SMALL
from tests.people import member, signed_in

PAGE = "/drills"
COVERAGE = f"{PAGE}/coverage"
ONE = (FailureType.PROVIDER, Tier.BATCH)
OTHER = SMALL + "decision_table:\n  provider_failure:\n    batch: {rungs: [{reaction: abort}]}\n"


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def drilled(actor, verdict="pass", cells="all", **columns):
    """Drills that came to a verdict, without being driven: the ids."""
    asked = drill_ask(actor=actor, fabric="small", cells=cells)
    status = Status.FAILED if verdict == "error" else Status.COMPLETED
    while (one := drill_claim(asked.batch, "h")) is not None:
        assert drill_end(one, "h", **{"status": status, "verdict": verdict, **columns})
    return asked.drills


def cell(page, failure, tier):
    """The cell in the matrix, as HTML."""
    return re.search(rf'data-v="(\w+)"[^>]* id="cell-{failure}-{tier}">(.*?)</td>', page, flags=re.DOTALL).groups()


@pytest.fixture
def vera(owner):
    """A member who is no operator."""
    return signed_in(member("vera"))


def test_every_word_is_there():
    assert set(CELLS) == set(State)
    assert set(ENDED) == set(Status)
    assert set(STRIKES) == set(FailureType)


def test_a_cell_shows_the_ladder_of_the_fabrics_own_table(browser, actor):
    fabric_publish(actor=actor, source=OTHER)
    page = browser.get(COVERAGE).content.decode()
    found = {
        tier: re.findall(r'class="rung[^"]*">\s*([\w ]+\w)', cell(page, "provider_failure", tier)[1]) for tier in Tier
    }
    assert found[Tier.BATCH] == ["abort"]
    assert len(found[Tier.INTERACTIVE]) > 1


def test_without_a_fabric_the_page_says_what_would_give_one(browser, actor):
    assert "There is nothing to drill: no fabric is published yet" in text(browser.get(COVERAGE))


def test_a_fabric_that_was_never_drilled(browser, small):
    page = browser.get(COVERAGE)
    shown = text(page)
    assert "Drill coverage of small" in shown
    assert "No cell has a drill yet. Run all of them in simulated time" in shown
    assert "0 of 24 verified for r1: 24 not run" in shown
    assert page.content.decode().count('data-v="never"') == 24
    assert "small-model" not in shown


def test_all_are_asked_for_by_a_button_and_wait_where_no_worker_is(browser, small):
    answer = browser.post(f"{PAGE}/ask", {"fabric": small, "cells": "all"}, follow=True)
    assert answer.redirect_chain == [("/drills/coverage?fabric=small", 302)]
    shown = text(answer)
    assert "24 cells are being drilled in simulated time." in shown
    assert "No worker is alive, so no drill runs." in shown
    assert "24 drills wait. They begin within seconds." in shown
    assert answer.content.decode().count('data-v="queued"') == 24
    assert re.search(r'<span class="count">24<span class="vh"> waiting or running', answer.content.decode())
    assert AuditLine.objects.filter(kind="drills_asked").count() == 1


@pytest.mark.parametrize(
    ("cells", "count"), [("provider_failure", 3), ("provider_failure:batch", 1), ("all", 24), ("stale", 24)]
)
def test_a_row_a_cell_and_the_stale_ones_are_asked_for(browser, small, cells, count):
    assert browser.post(f"{PAGE}/ask", {"fabric": small, "cells": cells}).status_code == 302
    assert Drill.objects.count() == count


def test_every_button_of_the_matrix_names_cells_that_there_are(browser, small):
    page = browser.get(COVERAGE).content.decode()
    offered = set(re.findall(r'form="drills-form" name="cells" value="([^"]+)"', page))
    assert len(offered) == 24 + 8 + 2
    for cells in offered - {"all", "stale"}:
        failure, _, tier = cells.partition(":")
        assert failure in set(FailureType)
        assert tier in {"", *Tier}


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({"cells": "everything"}, 422, "'everything' is no cell"),
        ({"cells": ""}, 422, "The form was incomplete"),
        ({"cells": "all", "seed": "x"}, 422, "The form was incomplete"),
        ({"cells": "all", "number": "9"}, 404, "has no version r9"),
    ],
)
def test_what_cannot_be_asked_for_is_said(browser, small, sent, status, said):
    answer = browser.post(f"{PAGE}/ask", {"fabric": small, **sent})
    assert answer.status_code == status
    assert said in text(answer)
    assert not Drill.objects.exists()


def test_the_same_again_is_refused_with_the_page(browser, small):
    for _ in range(2):
        answer = browser.post(f"{PAGE}/ask", {"fabric": small, "cells": "all"})
    assert answer.status_code == 409
    assert "All 24 cells wait to be drilled" in text(answer)


def test_verdicts_stand_in_their_cells_with_a_way_to_each_drill(browser, actor, small):
    ids = drilled(actor)
    page = browser.get(COVERAGE)
    assert "24 of 24 verified for r1: 24 pass" in text(page)
    state, inside = cell(page.content.decode(), FailureType.TOOL_LOOP, Tier.INTERACTIVE)
    assert state == "pass"
    assert f'href="/drills/{ids[0]}"' in inside
    assert "last: 24 cells in" in text(page)


def test_counts_are_told_of_what_there_is(browser, actor, small):
    drilled(actor)
    drilled(actor, "deviated", [ONE])
    drilled(actor, "error", [(FailureType.DEADLOCK, Tier.BATCH)])
    shown = text(browser.get(COVERAGE))
    assert "22 of 24 verified for r1: 22 pass, 1 deviated, 1 error" in shown


def test_a_stale_cell_says_of_which_version_its_verdict_was(browser, actor, small):
    drilled(actor)
    fabric_publish(actor=actor, source=OTHER)
    page = browser.get(COVERAGE).content.decode()
    state, inside = cell(page, *ONE)
    assert state == "stale"
    assert "r1, " in inside
    assert page.count('data-v="stale"') == 1
    browser.post(f"{PAGE}/ask", {"fabric": small, "cells": "stale"})
    assert Drill.objects.filter(status=Status.QUEUED).count() == 1


def test_a_batch_that_runs_says_where_it_is_and_is_stopped_by_its_button(browser, actor, small):
    asked = drill_ask(actor=actor, fabric=small, cells="all", seed=5)
    drill_claim(asked.batch, "h")
    page = browser.get(COVERAGE)
    assert "A drill is running. 1 of 24: infinite tool loop × low-latency interactive, virtual clock, seed 5." in text(
        page
    )
    (action,) = re.findall(r'formaction="([^"]+)"', page.content.decode())
    assert browser.post(action).status_code == 422
    answer = browser.post(action, {"fabric": small}, follow=True)
    assert "24 drills were stopped." in text(answer)
    assert "24 stopped" in text(answer)
    assert browser.post(action, {"fabric": small}).status_code == 409
    assert browser.get(action).status_code == 405


def test_who_is_no_operator_drills_and_stops_nothing_of_others(vera, actor, small):
    asked = drill_ask(actor=actor, fabric=small, cells=[ONE])
    assert "formaction" not in vera.get(COVERAGE).content.decode()
    assert vera.post(f"{PAGE}/batches/{asked.batch}/stop", {"fabric": small}).status_code == 403
    assert vera.post(f"{PAGE}/ask", {"fabric": small, "cells": "unsafe_output:batch"}).status_code == 302
    assert Drill.objects.filter(asked_by="vera").count() == 1


def test_many_who_look_are_shown_one_rendering_and_no_one_anothers_button(
    browser, vera, actor, small, django_assert_max_num_queries
):
    drill_ask(actor=actor, fabric=small, cells=[ONE])
    live = f"{PAGE}/live?fabric=small"
    assert "formaction" in browser.get(live, HTTP_HX_REQUEST="true").content.decode()
    assert "formaction" not in vera.get(live, HTTP_HX_REQUEST="true").content.decode()
    with django_assert_max_num_queries(5):
        assert "formaction" in browser.get(live, HTTP_HX_REQUEST="true").content.decode()
    assert browser.get(f"{PAGE}/live?fabric=none", HTTP_HX_REQUEST="true").status_code == 404


def test_the_fabric_that_was_drilled_last_is_shown_first_and_any_can_be_picked(browser, actor, small):
    fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: another"))
    assert "Drill coverage of another" in text(browser.get(COVERAGE))
    drilled(actor, cells=[ONE])
    page = browser.get(COVERAGE)
    assert "Drill coverage of small" in text(page)
    assert re.findall(r'<option value="([^"]+)"( selected)?>', page.content.decode()) == [
        ("another", ""),
        ("small", " selected"),
    ]
    assert "Drill coverage of another" in text(browser.get(f"{COVERAGE}?fabric=another"))
    assert browser.get(f"{COVERAGE}?fabric=nothing").status_code == 404


def test_the_part_that_changes_is_the_same_while_nothing_does(browser, small):
    asked = {"HTTP_HX_REQUEST": "true"}
    first = browser.get(f"{PAGE}/live?fabric=small", **asked)
    assert first.status_code == 200
    assert "csrfmiddlewaretoken" not in first.content.decode()
    assert (
        browser.get(f"{PAGE}/live?fabric=small", HTTP_IF_NONE_MATCH=first.headers["ETag"], **asked).status_code == 304
    )
    browser.post(f"{PAGE}/ask", {"fabric": small, "cells": "all"}, follow=True)
    assert (
        browser.get(f"{PAGE}/live?fabric=small", HTTP_IF_NONE_MATCH=first.headers["ETag"], **asked).status_code == 200
    )
    assert browser.get(f"{PAGE}/live?fabric=small").headers["Location"] == "/drills/coverage?fabric=small"


# -- one drill ---------------------------------------------------------------------------------------------------------


def lines(expected, observed):
    return [
        (line.how, line.expected and line.expected.words, line.observed and line.observed.words)
        for line in align_chains(expected, observed)
    ]


def test_the_chains_are_held_side_by_side():
    assert {line.how for line in align_chains("a > retry > x > y > failed", "retry > z > y > w > aborted")} == set(
        LINES
    )
    assert lines(
        "retry > wait_for_breaker > wait_for_breaker > escalate > aborted",
        "retry > wait_for_breaker > escalate > aborted",
    ) == [
        ("same", "retry", "retry"),
        ("same", "wait for breaker", "wait for breaker"),
        ("missing", "wait for breaker", None),
        ("same", "escalate", "escalate"),
        ("same", "run aborted", "run aborted"),
    ]
    assert lines("retry > failed", "nothing decided > completed") == [
        ("missing", "retry", None),
        ("deviates", "run failed", "run completed"),
    ]
    assert lines("skips retry > surface > failed", "surface > failed")[0] == ("missing", "retry, skipped", None)
    assert align_chains("not known: retry layers stand before this cell", "retry > failed") == []


def test_a_drill_that_deviated_says_where(browser, actor, small):
    (found,) = drilled(
        actor,
        "deviated",
        [ONE],
        expected="retry > escalate > aborted",
        observed="retry > aborted",
        why="the deadline left no room",
        body='{"equipped": ["a planner"], "seconds": 0.5}',
    )
    page = browser.get(f"{PAGE}/{found}")
    shown = text(page)
    assert "Provider failure × long-running batch" in shown
    assert "1 line differs. Line 2: escalate was expected, and it did not happen. The deadline left no room." in shown
    assert "2 escalate did not happen – Only expected" in shown
    assert "equipped with a planner" in shown
    assert 'href="/fabrics/small/r1?tab=table#cell-provider_failure-batch"' in page.content.decode()
    assert page.content.decode().count('<tr class="dev">') == 1


@pytest.mark.parametrize("kind", Deviation)
def test_a_deviation_without_a_differing_line_has_the_headline_of_its_reason(browser, actor, small, kind):
    same = {"seq": 5, "expected": "provider_failure: retry", "observed": "provider_failure: retry"}
    _, why = deviate(kind, "it names unsafe output")
    (found,) = drilled(actor, "deviated", [ONE], why=why, body=json.dumps({"lines": [same]}))
    shown = text(browser.get(f"{PAGE}/{found}"))
    assert f"{sentence(HEADLINES[kind])} It names unsafe output." in shown
    assert shown.lower().count(HEADLINES[kind]) == 1
    assert ("steady-state" in shown) == (kind is Deviation.STEADY)
    for form in ("html", "junit"):
        assert HEADLINES[kind] in unescape(browser.get(f"{PAGE}/{found}/report/{form}").content.decode()).lower(), form


def test_a_deviation_from_before_the_headlines_claims_no_check(browser, actor, small):
    same = {"seq": 5, "expected": "provider_failure: retry", "observed": "provider_failure: retry"}
    told = {"why": "it names the row unsafe output", "body": json.dumps({"lines": [same]})}
    (found,) = drilled(actor, "deviated", [ONE], **told)
    shown = text(browser.get(f"{PAGE}/{found}"))
    assert "The run broke a promise. It names the row unsafe output." in shown
    assert "steady-state" not in shown


def test_one_that_failed_says_what_stood_in_the_way(browser, actor, small):
    (found,) = drilled(actor, "error", [ONE], why="its gate asks for <b>citations</b>")
    page = browser.get(f"{PAGE}/{found}")
    assert "The drill failed, so it says nothing about the cell. Its gate asks for <b>citations</b>." in text(page)
    assert "<b>citations" not in page.content.decode()


def test_a_drill_is_run_again_with_the_same_seed_and_knows_those_before(browser, actor, small):
    (found,) = drilled(actor, cells=[ONE])
    page = browser.get(f"{PAGE}/{found}")
    form = page.content.decode().partition('id="another-form"')[0]
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))
    seed = Drill.objects.get(id=found).seed
    assert (
        fields.items()
        >= {"fabric": "small", "number": "1", "cells": "provider_failure:batch", "seed": str(seed)}.items()
    )
    answer = browser.post(f"{PAGE}/ask", fields, follow=True)
    again = Drill.objects.exclude(id=found).get()
    assert answer.redirect_chain == [(f"/drills/{again.id}", 302)]
    assert again.seed == seed
    assert f'href="/drills/{found}"' in answer.content.decode()
    assert "It waits for its turn." in text(answer)
    assert "Rerun" not in text(answer)


def test_a_verdict_about_what_the_cell_no_longer_is_says_so(browser, actor, small):
    (found,) = drilled(actor, cells=[ONE])
    assert "Stale" not in text(browser.get(f"{PAGE}/{found}"))
    fabric_publish(actor=actor, source=OTHER)
    shown = text(browser.get(f"{PAGE}/{found}"))
    assert "changed since (r2 is published), so this verdict is stale" in shown


def test_the_part_of_a_drill_that_changes(browser, actor, small):
    asked = drill_ask(actor=actor, fabric=small, cells=[ONE])
    one = drill_claim(asked.batch, "h")
    assert "data-follows" in browser.get(f"{PAGE}/{one.id}").content.decode()
    assert "It is driven now." in text(browser.get(f"{PAGE}/{one.id}/live", HTTP_HX_REQUEST="true"))
    assert browser.get(f"{PAGE}/{one.id}/live").headers["Location"] == f"/drills/{one.id}"
    drill_end(one, "h", status=Status.COMPLETED, verdict="pass")
    assert "followed the table" in text(browser.get(f"{PAGE}/{one.id}/live", HTTP_HX_REQUEST="true"))
    assert "data-follows" not in browser.get(f"{PAGE}/{one.id}").content.decode()


def test_last_drills_are_a_part_of_what_is_refreshed(browser, actor, small, monkeypatch):
    monkeypatch.setattr(renderings, "SHARED_S", 0.0)
    batch = drill_ask(actor=actor, fabric=small, cells=[ONE]).batch
    (address,) = re.findall(r'hx-get="(/drills/live[^"]*)"', browser.get(f"{COVERAGE}?fabric=small").content.decode())

    def last():
        page = browser.get(unescape(address), HTTP_HX_REQUEST="true")
        return text(page).partition("Last drills")[2]

    assert "small@r1 1 cell virtual 1 queued" in last()
    drill_end(drill_claim(batch, "h"), "h", status=Status.COMPLETED, verdict="pass")
    assert "small@r1 1 cell virtual 1 pass" in last()


def test_older_drills_stay_the_older_ones_when_they_are_refreshed(browser, actor, small):
    found = [drilled(actor, cells=[ONE])[0] for _ in range(12)]
    page = browser.get(f"{COVERAGE}?fabric=small&before={found[2]}").content.decode()
    (address,) = re.findall(r'hx-get="(/drills/live[^"]*)"', page)
    again = browser.get(unescape(address), HTTP_HX_REQUEST="true").content.decode()
    assert set(re.findall(r'id="to-[^"]+" href="/drills/([^"]+)"', again)) == set(found[:2])


def test_one_drill_that_waits_is_told_in_the_singular(browser, actor, small):
    drill_ask(actor=actor, fabric=small, cells=[ONE])
    assert "1 drill waits. It begins within seconds." in text(browser.get(f"{COVERAGE}?fabric=small"))


def test_another_workspaces_drill_is_not_there(browser, stranger, actor):
    fabric_publish(actor=stranger, source=SMALL)
    theirs = drill_ask(actor=stranger, fabric="small", cells=[ONE])
    assert browser.get(f"{PAGE}/{theirs.drills[0]}").status_code == 404
    assert browser.post(f"{PAGE}/batches/{theirs.batch}/stop", {"fabric": "small"}).status_code == 404


LAYERED = SMALL.replace(
    "policy:\n", "policy:\n  retry_layers: {preset: fabro, max_retries: 4, deviation: it is drilled}\n", 1
)
SHOWN_RUNG = re.compile(r'<span class="rung[^"]*">(.*?)</span>', flags=re.DOTALL)


def rungs(page, failure, tier):
    return [" ".join(re.sub(r"<[^>]+>", "", one).split()) for one in SHOWN_RUNG.findall(cell(page, failure, tier)[1])]


def test_cells_behind_retry_layers_show_all_that_their_drills_expect(browser, actor, small):
    """A cell of a stage with retry layers shows the layers' rungs too; other cells show their own rungs alone."""
    plain = browser.get(COVERAGE).content.decode()
    assert rungs(plain, *ONE) == ["retry ×5", "wait for breaker ×2", "escalate (last)"]
    assert "with the retry layers" not in plain
    fabric_publish(actor=actor, source=LAYERED)
    page = browser.get(COVERAGE).content.decode()
    assert rungs(page, *ONE) == ["retry ×3", "wait for breaker ×2", "retry node ×4", "escalate (last)"]
    assert "with the retry layers of finalize" in cell(page, *ONE)[1]
    assert rungs(page, FailureType.TOOL_LOOP, Tier.BATCH) == rungs(plain, FailureType.TOOL_LOOP, Tier.BATCH)
    assert "with the retry layers" not in cell(page, FailureType.TOOL_LOOP, Tier.BATCH)[1]
