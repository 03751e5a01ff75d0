"""A run's events in a real browser: appended while somebody reads, picked by key, opened step by step, copied."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise

import pytest

from console.launch.paths import ROOT
from tests.e2e.test_first_run import start

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

WRITER = """
import os, sys, time
os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
import django
django.setup()
from fabric import wiring
from fabric.core.events import InputIgnored, ToolAnswered
from fabric.models import Run
from fabric.services.workspaces import owner_actor
from tests.console.views.journals import append, journal

actor = owner_actor()
command, run_id, count, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
fact = lambda n: (InputIgnored(input_kind="decision_made", reason=f"number {n}"), None)
if command == "make":
    value = {"rows": [{"id": n, "deep": {"a": {"b": {"c": [n]}}}} for n in range(600)]}
    result = ToolAnswered(command_id="c", attempt=1, step_id="plan.0.e0.r0", call_id="x", tool="t", args_hash="", masked_hash="")
    print(journal(actor, run_id, [(result, value), *(fact(n) for n in range(2, count + 1))], state=("running", "completed")[size]))
else:
    begin = Run.objects.get(id=run_id).last_seq
    for first in range(begin + 1, begin + count + 1, size):
        append(run_id, actor, [fact(n) for n in range(first, min(first + size, begin + count + 1))])
        wiring.nudge().told({run_id: min(first + size - 1, begin + count)})
"""


@pytest.fixture
def write(installation):
    """Writes journals of the running installation, as an owner in another process would."""

    def run(command, run_id, count=1, size=0):
        done = subprocess.run(
            [sys.executable, "-c", WRITER, command, run_id, str(count), str(size)],
            env=installation.environ | {"PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout.strip()

    return run


@pytest.fixture
def like(visit):
    """Somebody at a browser, and a finished run of theirs."""
    visitor = visit()
    start(visitor, "doubtful")
    visitor.page.locator("article.question").wait_for()
    return visitor, visitor.page.url.rpartition("/")[2].partition("?")[0]


def at_end(page):
    return page.evaluate(
        "(() => { const l = document.getElementById('events-scroll'); return l.scrollHeight - l.clientHeight - l.scrollTop < 24 })()"
    )


def covered(page):
    """What the list stands for, in its order: seqs of rows, and the ranges behind its links."""
    return page.eval_on_selector_all(
        "#events-rows tr",
        "rows => rows.map(r => [Number(r.dataset.seq ?? r.dataset.first), Number(r.dataset.seq ?? r.dataset.last)])",
    )


def whole(ranges):
    """Whether they follow each other without a hole, a double or disorder."""
    return all(first == last_before + 1 for (_, last_before), (first, _) in pairwise(ranges))


def test_a_burst_of_10_000_arrives_whole_and_the_page_stays_small(like, write):
    visitor, other = like
    page = visitor.page
    run_id = write("make", other, 50, 0)
    page.goto(f"/runs/{run_id}?events=full")
    page.locator("#live[data-live=live]").wait_for()
    assert at_end(page)
    write("append", run_id, 10_000, 250)
    page.locator("#events-rows tr[data-seq='10050']").wait_for()
    ranges = covered(page)
    assert whole(ranges)
    assert ranges[-1] == [10_050, 10_050]
    assert len(ranges) <= 1_000
    assert at_end(page)
    folded = page.locator("#events-rows tr.folded a")
    if folded.count():
        folded.last.click()
        page.locator("#events-rows tr[data-seq]").first.wait_for()
        assert whole(covered(page))
    assert visitor.complaints == []


def test_nothing_moves_under_who_reads_and_what_is_new_waits_behind_a_bar(like, write):
    visitor, other = like
    page = visitor.page
    run_id = write("make", other, 150, 0)
    page.goto(f"/runs/{run_id}?events=full")
    page.locator("#live[data-live=live]").wait_for()
    page.evaluate("document.getElementById('events-scroll').scrollTop = 400")
    list_top = "document.getElementById('events-scroll').getBoundingClientRect().top"
    place = f"document.querySelector('#events-rows tr[data-seq=\"20\"]').getBoundingClientRect().top - {list_top}"
    before = page.evaluate(place)
    write("append", run_id, 30, 10)
    page.locator("#events-rows tr[data-seq='180']").wait_for(state="attached")
    page.locator("#events-new", has_text="30 new").wait_for()
    assert page.evaluate(place) == before
    page.locator("#events-new a").click()
    page.wait_for_function("document.getElementById('events-new').hidden")
    assert at_end(page)
    write("append", run_id, 5, 5)
    page.locator("#events-rows tr[data-seq='185']").wait_for()
    assert at_end(page)
    assert page.locator("#events-new").is_hidden()
    assert visitor.rows == list(range(1, 186))


def test_what_does_not_match_the_filter_is_not_appended(like, write):
    visitor, other = like
    page = visitor.page
    run_id = write("make", other, 40, 0)
    page.goto(f"/runs/{run_id}?events=full&q=number+4")
    page.locator("#live[data-live=live]").wait_for()
    assert visitor.rows == [4, 40]
    write("append", run_id, 20, 4)
    page.locator("#live[data-seq='60']").wait_for()
    assert visitor.rows == [4, 40, *range(41, 50)]
    page.goto(f"/runs/{run_id}?events=raw")
    page.locator("#live[data-live=live]").wait_for()
    write("append", run_id, 3, 3)
    page.locator("#events-new", has_text="3 new").wait_for()
    page.locator("#events-new a").click()
    page.locator("#events-rows tr[data-seq='63']").wait_for()
    assert visitor.complaints == []


def test_j_and_k_go_through_the_events_of_the_list(like, write):
    visitor, other = like
    page = visitor.page
    run_id = write("make", other, 30, 1)
    page.goto(f"/runs/{run_id}?events=full")
    for key, seq in (("j", 1), ("j", 2), ("j", 3), ("k", 2)):
        page.keyboard.press(key)
        page.locator(f"#inspector [data-shown='{seq}']").wait_for()
        assert page.locator("#events-rows a.seq[aria-current]").inner_text() == str(seq)
    page.locator("#q").fill("jk")
    assert page.locator("#q").input_value() == "jk"
    page.goto(f"/runs/{run_id}/events/7?events=full")
    page.keyboard.press("j")
    page.locator("#inspector [data-shown='8']").wait_for()


def test_a_value_is_opened_step_by_step_and_its_path_copied(like, write):
    visitor, other = like
    page = visitor.page
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    run_id = write("make", other, 3, 1)
    page.goto(f"/runs/{run_id}?events=full&event=1")
    more = page.locator("#inspector .jt-more a").first
    assert "400 more" in more.inner_text()
    more.click()
    page.locator("#inspector li[data-k='399']").wait_for()
    row = page.locator("#inspector li[data-k='350'] > details").first
    row.locator("> summary").click()
    row.locator("li[data-k='a']").first.hover()
    page.locator(".jt-path").click()
    assert page.evaluate("navigator.clipboard.readText()") == "/rows/350/deep/a"
    page.locator("#inspector [data-copy-link]").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.endsWith('/events/1'))")
    assert visitor.complaints == []


def test_it_all_works_without_a_script(visit, write, like):
    _, other = like
    run_id = write("make", other, 450, 1)
    visitor = visit(java_script_enabled=False)
    page = visitor.page
    page.goto(f"/runs/{run_id}")
    page.get_by_role("navigation", name="Detail").get_by_role("link", name="Full").click()
    assert visitor.rows == list(range(251, 451))
    page.get_by_role("link", name="Earlier events").click()
    assert visitor.rows == list(range(51, 251))
    page.locator("#q").fill("number 333")
    page.get_by_role("button", name="Filter").click()
    assert visitor.rows == [333]
    page.locator("a.seq").click()
    page.wait_for_url("**/events/333?*")
    assert "number 333" in page.locator(".verdict").inner_text()
    page.goto(f"/runs/{run_id}/events/1")
    page.get_by_role("link", name="400 more").click()
    assert page.locator("li[data-k='200']").count()
    page.goto(f"/runs/{run_id}")
    with page.expect_download() as begun:
        page.get_by_role("link", name="Journal").click()
    lines = begun.value.path().read_text().splitlines()
    assert begun.value.suggested_filename == f"run-{run_id}.journal.ndjson"
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 451))
