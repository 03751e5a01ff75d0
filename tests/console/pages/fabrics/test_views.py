"""The fabric pages: every part, every version, the same bytes, and sentences for what there is not."""

from __future__ import annotations

import html
import json
import re

import pytest

from console.pages.fabrics.views import MIX, TABS, outcome_mix
from console.templatetags.marks import EFFECTS
from console.words.decision_table import ICONS, MEANINGS, PER, build_table
from console.words.fabrics import limit_value, list_agents
from fabric.core.schema.limits import find_unit
from fabric.core.spec.policies.decision_table import DEFAULT_TABLE, CountScope, Reaction
from fabric.core.spec.policies.flow_policy import policy_fields
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.models import Fabric, Guard, Run
from fabric.runtime.spending.usual_rates import KIND, add_run
from fabric.selectors.fabrics.limits import list_limits
from fabric.selectors.overview.tiles import Tile
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.document import fabric_read
from tests.console.pages.runs.test_views import HOSTILE, queued
from tests.fabric.services.world import SAMPLE_NAMES, SMALL, SPARED, ran, sample

CELL = "decision_table:\n  cost_overrun:\n    batch: {rungs: [{reaction: escalate, role: finance}]}\nreviewers:"


def text(answer) -> str:
    return html.unescape(answer.content.decode())


@pytest.fixture
def twice(actor, small) -> str:
    fabric_publish(actor=actor, source=SMALL.replace("instructions: Read.", "instructions: Read twice."))
    return small


# -- tables are total --------------------------------------------------------------------------------------------------


def test_everything_has_words():
    assert set(ICONS) == set(MEANINGS) == set(Reaction)
    assert set(PER) == set(CountScope)
    assert set(EFFECTS) == set(ToolSpec.model_json_schema()["properties"]["effect"]["enum"])
    assert sorted(tile for _, _, tiles in MIX.values() for tile in tiles) == sorted(Tile)


@pytest.mark.parametrize("unit", sorted({unit for _, field in policy_fields() if (unit := find_unit(field))}))
def test_every_unit_is_written(unit):
    shown = [limit for group in list_limits(fabric_read(SMALL).spec) for limit in group.limits if limit.unit is unit]
    assert shown
    for limit in shown:
        value = limit_value(limit, limit.value)
        assert value
        assert "0000000" not in value


def test_a_mix_fills_its_bar():
    shares = outcome_mix({Tile.COMPLETED: 2, Tile.ENDED_BADLY: 1, Tile.QUEUED: 1, Tile.PAUSED: 2})
    assert [(share.word, share.count) for share in shares] == [
        ("completed", 2),
        ("failed or aborted", 1),
        ("not ended", 3),
    ]
    assert shares[-1].x + shares[-1].width == pytest.approx(100, abs=0.1)
    assert outcome_mix({}) == []


# -- the list ----------------------------------------------------------------------------------------------------------


def test_no_fabric(browser):
    assert "manage.py fabric publish fabric/samples/research-desk.yaml" in text(browser.get("/fabrics"))


def test_the_list(browser, actor, small, doubtful):
    run = ran(actor, small)
    queued(actor, small)
    page = text(browser.get("/fabrics"))
    assert "A small fabric" in page
    assert 'href="/fabrics/doubtful"' in page
    assert 'aria-label="1 completed, 1 not ended"' in page
    assert page.count(">never<") == 1
    Run.objects.exclude(id=run.id).delete()
    assert f'href="/runs/{run.id}"' in text(browser.get("/fabrics"))


# -- one fabric --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in SAMPLE_NAMES if name != "trip-desk"])  # That one calls a service.
def test_every_part_of_every_sample(browser, actor, name):
    fabric_publish(actor=actor, source=sample(name))
    for tab in TABS:
        answer = browser.get(f"/fabrics/{name}?tab={tab}")
        assert answer.status_code == 200
        assert re.search(rf'href="/fabrics/{name}(\?tab={tab})?" aria-current="page"', answer.content.decode())


def test_the_summary_says_how_the_fabric_does(browser, actor, small):
    empty = text(browser.get("/fabrics/small"))
    assert "It has not run yet." in empty
    assert "no run</p>" in empty
    run = ran(actor, small)
    page = " ".join(re.sub(r"<[^>]+>", " ", text(browser.get("/fabrics/small"))).split())
    assert "100 % 1 of 1 runs in 7 days" in page
    assert "What do the notes say?" in page
    assert f"/runs/{run.id}" in text(browser.get("/fabrics/small"))
    assert "0 of 24 Never drilled" in page


def test_a_version_has_no_summary(browser, small):
    answer = browser.get("/fabrics/small/r1?tab=summary")
    assert answer.status_code == 404
    assert "it has: agents" in text(answer)


def test_agents(browser, small):
    page = text(browser.get("/fabrics/small?tab=agents"))
    assert "Read.</pre>" in page
    assert "$1.0000 in, $2.0000 out" in page
    assert "read_document" in page
    assert "read-only" in page
    assert "Reads one attached document" in page or "document" in page


def test_the_chain_of_fallbacks_is_told_with_its_prices_and_what_it_must_be_capable_of(browser, actor, small):
    fabric_publish(actor=actor, source=SPARED)
    page = " ".join(re.sub(r"<[^>]+>", " ", text(browser.get("/fabrics/spared?tab=agents"))).split())
    assert "fallbacks spare $2.0000 in, $4.0000 out" in page
    assert "needs tool use" in page
    none = text(browser.get("/fabrics/small?tab=agents"))
    assert "none: no model takes over when the provider fails" in none


def test_a_model_without_a_price_is_unpriced_and_not_free(settings):
    spec = fabric_read(SMALL.replace("    price: {input_usd_per_mtok: 1, output_usd_per_mtok: 2}\n", "")).spec
    assert {agent.model.price for agent in list_agents(spec)} == {None}


def test_unpriced_is_said(browser, small, actor):
    from fabric.models import Revision

    revision = Revision.objects.get()
    spec = json.loads(revision.spec)
    spec["models"][0]["price"] = None
    Revision.objects.update(spec=json.dumps(spec))
    page = text(browser.get("/fabrics/small?tab=agents"))
    assert page.count("Unpriced") == 2
    assert "$0.0000" not in page


def test_the_decision_table_is_whole(browser, small):
    page = text(browser.get("/fabrics/small?tab=table"))
    assert {(failure, tier) for failure, tier in re.findall(r'id="cell-(\w+?)-(\w+)"', page)} == {
        (failure.value, tier.value) for failure in FailureType for tier in Tier
    }
    assert page.count("(last)") == len(DEFAULT_TABLE)
    assert "every cell is the default" in page


def test_a_cell_that_differs_is_marked_and_the_default_said(browser, actor, small):
    fabric_publish(actor=actor, source=SMALL.replace("reviewers:", CELL))
    page = text(browser.get("/fabrics/small?tab=table"))
    assert "1 of 24 cells differs from the default" in page
    assert "default: alert + cheaper model ×1 → abort" in page
    assert page.count("td.changed") == 0
    assert re.findall(r'id="cell-(\S+)" class="[^"]* changed"', page) == ["cost_overrun-batch"]


def test_a_cell_is_its_ladder():
    rows = {failure: {cell.tier: cell for cell in cells} for failure, cells in build_table(fabric_read(SMALL).spec)}
    rungs = rows[FailureType.PROVIDER][Tier.BATCH].rungs
    assert [(rung.words, rung.times, rung.last) for rung in rungs] == [
        ("retry", 5, False),
        ("wait for breaker", 2, False),
        ("escalate", None, True),
    ]
    assert rows[FailureType.UNSAFE_OUTPUT][Tier.HIGH_STAKES].rungs[0].words == "block + escalate to safety"
    assert not any(cell.standard for cells in rows.values() for cell in cells.values())


def test_each_breaker_is_a_line_with_the_names_as_the_fabric_says_them(browser, actor):
    breakers = "[{preset: endpoint, scope: tool, only: [read_document]}, {preset: rate_limit}]"
    fabric_publish(actor=actor, source=SMALL.replace("policy:\n", f"policy:\n  breakers: {breakers}\n"))
    shown = text(browser.get("/fabrics/small?tab=limits"))
    first = "tool read_document: 5 timeout/server error in a row, 60 s, 3 trips"
    assert f"<b>{first}<br>provider: 3 rate limit in a row, 60 s</b>" in shown


def test_what_is_usual_is_said_once_enough_runs_have_completed(browser, small):
    assert "0 of the 5 required runs have completed" in text(browser.get("/fabrics/small?tab=limits"))
    state = ""
    for cost in (10_000, 20_000, 30_000, 40_000):
        state = add_run(state, {"run": (cost, 5)})
    Guard.objects.create(scope=Fabric.objects.get(name="small").id, kind=KIND, state=state, generation=1, changed_at=1)
    assert "4 of the 5 required runs" in text(browser.get("/fabrics/small?tab=limits"))
    Guard.objects.update(state=add_run(state, {"run": (35_000, 5), "agent:reader": (1, 1)}))
    page = text(browser.get("/fabrics/small?tab=limits"))
    row = page.partition("the run</th>")[2].partition("</tr>")[0]
    assert "<b>$0.03</b>" in row
    assert "$0.30, 10 times that" in row
    assert "agent reader" not in page


@pytest.mark.parametrize("tab", TABS)
def test_no_part_speaks_of_a_draft_that_is_not_there(browser, small, tab):
    page = text(browser.get(f"/fabrics/small?tab={tab}"))
    assert "You have a draft" not in page
    assert "Continue editing" not in page


def test_limits(browser, small):
    answer = browser.get("/fabrics/small?tab=limits")
    page = text(answer)
    values = sum(len(group.limits) for group in list_limits(fabric_read(SMALL).spec))
    assert f"{values} values, 1 set by the fabric" in page
    # A narrow column breaks a path between its words only, and shows the value without scrolling.
    row = answer.content.decode().partition("budget.<wbr>run_usd_micros</code>")[2].partition("</tr>")[0]
    assert row.index("$1.0000") < row.index(">all<")
    assert "$1.0000" in page
    assert "S0: LangGraph's ceiling" in page


def test_yaml_is_the_same_bytes_every_time_and_reads_back(browser, actor, small):
    first, second = (browser.get("/fabrics/small/r1.yaml") for _ in range(2))
    assert first.content == second.content
    assert first.headers["Content-Disposition"] == 'attachment; filename="small-r1.yaml"'
    again = fabric_publish(actor=actor, source=first.content.decode())
    assert (again.number, again.changed) == (1, False)


def test_what_was_published_is_shown_and_downloaded_with_its_comments(browser, actor, small):
    commented = SMALL.replace("models:\n", "# Why this model.\nmodels:\n")
    fabric_publish(actor=actor, source=commented)
    assert browser.get("/fabrics/small/r1.yaml").content.decode() == commented
    page = text(browser.get("/fabrics/small?tab=yaml"))
    assert "# Why this model." in page
    assert "as published" in page
    written = browser.get("/fabrics/small/r1.yaml?form=written").content.decode()
    assert (
        "# Agents may hand over at most this often in one chain of peers. Unit: handoffs. Default: 5. Source: S0: hop limit."
        in written
    )
    assert 'href="/fabrics/small/r1.yaml?form=written"' in page


def test_versions(browser, twice):
    page = text(browser.get("/fabrics/small?tab=versions"))
    assert page.index(">r2</a>") < page.index(">r1</a>")
    assert "agents.reader.instructions" in page.replace("<wbr>", "")
    assert "<del>Read.</del><ins>Read twice.</ins>" in page
    assert "The first version." in page
    assert "by owner" in page


def test_a_version_that_is_not_published_any_more_says_so(browser, twice):
    old, new = text(browser.get("/fabrics/small/r1")), text(browser.get("/fabrics/small/r2"))
    assert "Earlier version" in old
    assert "Read.</pre>" in old
    assert "A new run takes" in old
    assert "Start a run" not in old.partition("<main")[2]
    assert "Earlier version" not in new
    assert "Read twice.</pre>" in new
    assert 'href="/fabrics/small/r1?tab=limits"' in old


def test_a_run_leads_to_the_version_it_is_pinned_to(browser, actor, small):
    run_id = queued(actor, small)
    fabric_publish(actor=actor, source=SMALL.replace("instructions: Read.", "instructions: Read twice."))
    assert 'href="/fabrics/small/r1"' in text(browser.get(f"/runs/{run_id}"))


def test_what_an_author_wrote_does_not_act(browser, actor, small):
    wild = HOSTILE.replace('"', "'").replace("\x1b", "\\x1b")
    source = SMALL.replace("instructions: Read.", f'instructions: "{wild}"').replace(
        "title: A small fabric", f'title: "{wild}"'
    )
    source = source.replace("policy:\n", f'policy:\n  retry: {{shared: false, deviation: "{wild}"}}\n')
    fabric_publish(actor=actor, source=source)
    for tab in TABS:
        page = browser.get(f"/fabrics/small?tab={tab}").content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "\u202e" not in page
        assert "\x1b" not in page


# -- what there is not -------------------------------------------------------------------------------------------------

MISSING = {
    "/fabrics/nosuch": "no fabric is named 'nosuch'; there are: small",
    "/fabrics/nosuch/r1": "no fabric is named 'nosuch'",
    "/fabrics/nosuch/r1.yaml": "no fabric is named 'nosuch'",
    "/fabrics/small/r9": "fabric 'small' has no version r9; the newest is r1",
    "/fabrics/small/r0": "has no version r0",
    f"/fabrics/small/r{10**40}": "the newest is r1",
    f"/fabrics/small/r{10**40}.yaml": "the newest is r1",
    "/fabrics/small/r1.yaml?form=verse": "a version has no form 'verse'; it has: written",
    "/fabrics/small?tab=weather": "a fabric's page has no part 'weather'; it has: summary",
    "/fabrics/%00": "no fabric is named",
    f"/fabrics/{'x' * 3000}": "no fabric is named",
    "/fabrics/small/latest": "Page not found",
}


@pytest.mark.parametrize("address", MISSING)
def test_what_there_is_not_is_a_sentence(browser, small, address):
    answer = browser.get(address)
    assert answer.status_code == 404
    assert MISSING[address].lower() in text(answer).lower()
    assert len(answer.content) < 60_000


@pytest.mark.parametrize("address", ["/fabrics/small", "/fabrics/small/r1", "/fabrics/small/r1.yaml"])
def test_a_fabric_of_another_workspace_is_not_there(browser, small, stranger, address):
    from fabric.models import Fabric, Revision

    Fabric.objects.update(workspace_id=stranger.workspace_id)
    Revision.objects.update(workspace_id=stranger.workspace_id)
    answer = browser.get(address)
    assert answer.status_code == 404
    assert "none is published yet" in text(answer)


def test_a_version_that_is_not_read_any_more_is_a_sentence(browser, twice):
    from fabric.models import Revision

    Revision.objects.filter(number=1).update(spec='{"name": "small"}')
    assert browser.get("/fabrics/small/r1").status_code == 409
    assert browser.get("/fabrics/small").status_code == 200
    assert browser.get("/fabrics/small?tab=versions").status_code == 200


def test_the_cost_of_a_success_is_on_the_page(browser, actor, small):
    assert "No run was started in the last 7 days" in text(browser.get("/fabrics/small?tab=cost"))
    ran(actor, small)
    page = text(browser.get("/fabrics/small?tab=cost"))
    assert "Cost per success" in page
    assert "no success" not in page
