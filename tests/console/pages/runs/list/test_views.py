"""The page of the list of runs: what it shows, what the line does to it, and what is said when something is wrong."""

from __future__ import annotations

import re
from html import unescape
from itertools import pairwise, product
from urllib.parse import unquote_plus, urlencode

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.pages.runs.list.chart import BARS_MAX, WIDTHS_S, Chart
from console.pages.runs.list.rows import marks
from console.pages.runs.list.views import TABS
from console.templatetags.figures import instant
from console.words.protections import MARKS
from fabric.composition import engine as wiring
from fabric.core.state.trouble import FIRED
from fabric.core.values.flow import RunState, Stage
from fabric.models import Run
from fabric.selectors import database_time
from fabric.selectors.contents import UNREAD_LINE
from fabric.selectors.runs.query import list_pages as runs_list
from fabric.selectors.runs.query.grammar import FIELDS, Query, parse
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from fabric.worker.nudges.listener import NullNudge
from tests.console.templatetags.test_marks import SPRITE
from tests.fabric.services.world import SMALL, ran
from tests.people import member, signed_in


def queued(actor, fabric, text="What do the notes say?"):
    return run_start(store=wiring.store(), nudge=NullNudge(), actor=actor, fabric=fabric, text=text).run_id


@pytest.fixture
def seven(actor, small) -> list[str]:
    """Seven runs, the oldest first: the last one waits, two have failed, one recovered."""
    ids = [queued(actor, small, f"request {n}") for n in range(7)]
    Run.objects.filter(id=ids[6]).update(state="waiting", stage="validate")
    Run.objects.filter(id__in=ids[1:3]).update(
        state="failed", stage="fan_out", ended_at=Run.objects.get(id=ids[2]).created_at + 9
    )
    Run.objects.filter(id=ids[0]).update(state="completed", stage="finalize", recovered=True, epoch=2, ended_at=1)
    return ids  # fmt: skip


def shown(browser, **asked) -> str:
    answer = browser.get(f"/runs?{urlencode(asked)}")
    assert answer.status_code == 200, answer.content[:500]
    return answer.content.decode()


def titles(page: str) -> list[int]:
    return [int(number) for number in re.findall(r"request (\d)</a>", page)]


def test_nothing_yet_leads_to_the_first_run(browser):
    page = shown(browser)
    assert "No run has started yet" in page
    assert 'href="/runs/start"' in page
    assert "<table" not in page.partition("runs-list")[2]


def test_the_rows(browser, seven):
    page = shown(browser)
    assert titles(page) == [6, 5, 4, 3, 2, 1, 0]
    assert "7 of 7" in page
    assert "Completed after recovery" in page
    assert "replanned 2×" in page
    assert "small@r1" in page
    assert "plan passed, fan-out passed, fan-in passed, validate waits for a person, finalize not reached" in page
    assert seven[3][-12:] in page
    assert f'href="/runs/{seven[3]}">request 3</a>' in page


def test_the_page_goes_on_both_ways(browser, seven, monkeypatch):
    monkeypatch.setattr("console.pages.runs.list.views.PAGE_RUNS", 3)
    address, down = "/runs", []
    while address:
        page = browser.get(address).content.decode()
        down.append(titles(page))
        following = re.search(r'<a rel="next" href="([^"]+)"', page)
        address, last = (unescape(following[1]), address) if following else ("", address)
    assert down == [[6, 5, 4], [3, 2, 1], [0]]
    back = re.search(r'<a rel="prev" href="([^"]+)"', browser.get(last).content.decode())
    page = browser.get(unescape(back[1])).content.decode()
    assert titles(page) == [3, 2, 1]
    up = re.search(r'<a rel="prev" href="([^"]+)"', page)
    page = browser.get(unescape(up[1])).content.decode()
    assert titles(page) == [6, 5, 4]
    assert 'rel="prev"' not in page


def heads(page: str) -> dict[str, str]:
    """Addresses of the links in the headings, by their words; the heading that is sorted by, and its way, under
    ``is``.
    """
    found = re.findall(r'<th scope="col" class="([\w-]+) sorts"(?: aria-sort="(\w+)")?>(.*?)</th>', page, re.DOTALL)
    assert [heading for heading, _, _ in found] == ["c-when", "num", "num"]
    (way,) = [f"{heading} {way}" for heading, way, _ in found if way]
    links = [link for _, _, head in found for link in re.findall(r'<a href="([^"]+)"[^>]*>([\w ]+)<', head)]
    return {"is": way} | {word: unescape(link) for link, word in links}


def others(line: str = "") -> dict[str, str]:
    """The links to the orders of ended runs."""
    asked = {"q": line} if line else {}
    words = {"took": "-took", "by end": "-ended", "Cost": "-cost", "Tokens": "-tokens"}
    return {word: f"/runs?{urlencode({**asked, 'sort': sort})}" for word, sort in words.items()}


def test_the_heading_turns_the_order_around_and_pages_go_on_in_it(browser, seven, monkeypatch):
    monkeypatch.setattr("console.pages.runs.list.views.PAGE_RUNS", 3)
    assert heads(shown(browser)) == {"is": "c-when descending", "Started": "/runs?sort=started"} | others()
    page = shown(browser, sort="started")
    assert 'aria-label="Runs, the oldest first"' in page
    assert heads(page) == {"is": "c-when ascending", "Started": "/runs"} | others()
    address, down = "/runs?sort=started", []
    while address:
        page = browser.get(address).content.decode()
        down.append(titles(page))
        following = re.search(r'<a rel="next" href="([^"]+)">Newer runs', page)
        address, last = (unescape(following[1]), address) if following else ("", address)
    assert down == [[0, 1, 2], [3, 4, 5], [6]]
    up = re.search(r'<a rel="prev" href="([^"]+)">Older runs', browser.get(last).content.decode())
    page = browser.get(unescape(up[1])).content.decode()
    assert titles(page) == [3, 4, 5]
    up = re.search(r'<a rel="prev" href="([^"]+)">Older runs', page)
    assert titles(browser.get(unescape(up[1])).content.decode()) == [0, 1, 2]
    assert re.search(r'<a href="/runs\?sort=started">Oldest</a>', page)


def test_failed_runs_are_ordered_by_their_end_and_show_it(browser, seven):
    started = Run.objects.get(id=seven[2]).created_at
    Run.objects.filter(id=seven[1]).update(ended_at=started + 90_000_000)
    failed = heads(shown(browser, q="state:failed"))
    assert failed["by end"] == "/runs?q=state%3Afailed&sort=-ended"
    page = browser.get(failed["by end"]).content.decode()
    assert titles(page) == [1, 2]
    assert heads(page) == {
        "is": "c-when descending",
        "Ended": "/runs?q=state%3Afailed&sort=ended",
        "took": "/runs?q=state%3Afailed&sort=-took",
        "by start": "/runs?q=state%3Afailed",
        "Cost": "/runs?q=state%3Afailed&sort=-cost",
        "Tokens": "/runs?q=state%3Afailed&sort=-tokens",
    }
    assert instant(started + 90_000_000, "full") in page
    assert titles(browser.get(heads(page)["Ended"]).content.decode()) == [2, 1]
    news = browser.get("/runs/news", {"q": "state:failed", "sort": "-ended", "seen": f"{seven[1]}.99"})
    assert instant(started + 90_000_000, "full") in news.content.decode()


def test_ended_runs_are_ordered_by_cost_and_by_their_time(browser, seven, monkeypatch):
    monkeypatch.setattr("console.pages.runs.list.views.PAGE_RUNS", 2)
    for number, (cost, took) in enumerate(((5, 900), (90, 30), (7, 600))):
        begun = Run.objects.get(id=seven[number]).created_at
        Run.objects.filter(id=seven[number]).update(cost_usd_micros=cost, state="failed", ended_at=begun + took)
    page = shown(browser)
    for word, way, found, rest in (("Cost", "num", [1, 2], [0]), ("took", "c-when", [0, 2], [1])):
        first = browser.get(heads(page)[word]).content.decode()
        assert (titles(first), heads(first)["is"]) == (found, f"{way} descending")
        following = re.search(r'<a rel="next" href="([^"]+)">(?:Cheaper|Shorter) runs', first)
        last = browser.get(unescape(following[1])).content.decode()
        assert titles(last) == rest
        back = re.search(r'<a rel="prev" href="([^"]+)">(?:Dearer|Longer) runs', last)
        assert titles(browser.get(unescape(back[1])).content.decode()) == found
        turned = browser.get(heads(first)[word]).content.decode()
        assert (titles(turned), heads(turned)["is"]) == ([*rest, found[1]], f"{way} ascending")
    assert heads(shown(browser, q="state:running,failed")) == others("state:running,failed") | {
        "is": "c-when descending",
        "Started": "/runs?q=state%3Arunning%2Cfailed&sort=started",
    }


def test_live_runs_have_one_order(browser, seven):
    page = shown(browser, q="state:waiting")
    assert heads(page) == {"is": "c-when descending", "Started": "/runs?q=state%3Awaiting&sort=started"}


def test_an_order_is_kept_where_it_serves_and_let_go_where_it_does_not(browser, seven):
    page = shown(browser, q="state:failed request", sort="-ended")
    assert page.count('<input type="hidden" name="sort" value="-ended">') == 4, "query, filter, columns, view"
    removed = [unescape(link) for link in re.findall(r'<a href="([^"]+)" aria-label="Remove filter', page)]
    assert removed == ["/runs?q=request&sort=-ended", "/runs?q=state%3Afailed&sort=-ended"]
    for line, kept in (("state:failed", "&sort=-ended"), ("state:running", "")):
        answer = browser.get("/runs", {"q": line, "last": "state:failed", "sort": "-ended"})
        assert answer.headers["Location"] == f"/runs?{urlencode({'q': line})}{kept}"
    answer = browser.get("/runs", {"q": "nope:1", "last": "", "sort": "-ended"})
    assert (answer.status_code, len(titles(answer.content.decode()))) == (422, 3)
    refused = browser.get("/runs?sort=fabric")
    assert refused.status_code == 422
    assert "is no order of runs; write started or -started" in unescape(refused.content.decode())


def test_a_run_that_a_protection_stopped_says_why_and_claims_nothing_else(browser, seven):
    why = "the breaker of provider script is open: " + "<i>5</i> of 6 calls failed, " * 6
    Run.objects.filter(id=seven[2]).update(reason=why)
    Run.objects.filter(id=seven[0]).update(reason="finished")
    page = shown(browser)
    assert "nothing fired" not in page
    assert '<th scope="col">Protections</th>' in page
    whole, cut = re.search(r'<span class="why" title="([^"]+)">([^<]+)</span>', page).groups()
    assert unescape(whole) == why
    assert (unescape(cut)[:119], len(unescape(cut))) == (why[:119], 120)
    assert page.count('class="why"') == 1
    assert re.search(r'<td class="fit c-prot"></td>', page)
    assert titles(shown(browser, q='why:"breaker of provider"')) == [2]
    assert "has breaker of provider" in shown(browser, q='why:"breaker of provider"')


def protections(page: str) -> list[str]:
    """The cells of the column, as words."""
    cells = re.findall(r'<td class="fit c-prot">(.*?)</td>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", cell).split()) for cell in cells]


def test_what_fired_is_shown_and_finds_the_runs_with_it(browser, seven):
    Run.objects.filter(id=seven[2]).update(cause="budget_gate", failure="cost_overrun", fired="\nbudget\nretry\n")
    Run.objects.filter(id=seven[1]).update(cause="timeout", failure="provider_failure", fired="\nretry\n")
    page = shown(browser)
    assert protections(page) == ["", "", "", "", "budget retry cost overrun", "retry provider failure", "replanned 2×"]
    links = {word: unescape(link) for link, word in re.findall(r'href="([^"]+)" title="Show runs with ([^"]+)"', page)}
    assert {word: titles(browser.get(link).content.decode()) for word, link in links.items()} == {
        "fired: budget": [2],
        "fired: retry": [2, 1],
        "failure: cost overrun": [2],
        "failure: provider failure": [1],
        "replans: replanned 2×": [0],
    }
    narrowed = shown(browser, q="fired:retry state:failed failure:provider_failure request", sort="started")
    links = [unescape(link) for link in re.findall(r'href="([^"]+)" title="Show runs (?:with|of)', narrowed)]
    assert links == [
        "/runs?" + urlencode({"q": line, "sort": "started"})
        for line in (
            "fired:retry state:failed failure:provider_failure request fabric:small",
            "state:failed failure:provider_failure request fired:retry",
            "fired:retry state:failed request failure:provider_failure",
        )
    ]


def test_every_protection_has_its_mark():
    assert tuple(MARKS) == FIRED
    assert {icon for icon, _ in MARKS.values()} <= SPRITE


def test_reasons_are_for_who_may_read_them(owner, seven):
    Run.objects.filter(id=seven[2]).update(reason="the breaker is open")
    viewer = signed_in(member("vera", "viewer"))
    page = shown(viewer)
    assert "the breaker is open" not in page
    assert page.count(f'<span class="why" title="{UNREAD_LINE}">{UNREAD_LINE}</span>') == 1
    for line in ("why:breaker", "-why:breaker"):
        assert "No run matches all of this" in shown(viewer, q=line), line


def test_the_page_says_whose_times_it_shows(browser, seven):
    assert "<span data-zone>times are UTC</span>" in shown(browser)


def test_the_views(browser, seven):
    page = shown(browser)
    tabs = re.search(r'<nav class="tabs".*?</nav>', page, re.DOTALL)[0]
    assert [re.sub(r"<[^>]+>", "", link).split() for link in re.findall(r"<a.*?</a>", tabs, re.DOTALL)] == [
        ["All"],
        ["Running", "0"],
        ["Waiting", "1"],
        ["Failed", "today", "2"],
        ["Recovered", "1"],
    ]
    for word, query, _ in TABS:
        page = shown(browser, q=query)
        assert re.search(rf'aria-current="page">{word}', page), word
    assert titles(shown(browser, q="state:failed,aborted ended:today")) == [2, 1]


def test_every_term_has_a_chip_that_takes_it_away(browser, seven):
    page = shown(browser, q="state:failed -started:-2w request")
    gone = [unescape(link) for link in re.findall(r'<a href="([^"]+)" aria-label="Remove filter', page)]
    assert gone[:3] == [
        "/runs?q=-started%3A-2w+request",
        "/runs?q=state%3Afailed+request",
        "/runs?q=state%3Afailed+-started%3A-2w",
    ]
    assert "not last 2w" in page


def test_a_chip_says_its_choices_in_words(browser, seven):
    page = shown(browser, q="state:failed,aborted -tier:high_stakes,batch")
    assert "<b>failed or aborted</b>" in page
    assert "<b>not high stakes or batch</b>" in page


def test_the_badge_says_when_it_was_without_script(browser, seven):
    assert re.search(
        r'id="live".*?As of <span class="muted" data-age>\d\d:\d\d:\d\d UTC, reload</span>', shown(browser)
    )


def test_the_chart_shows_the_newest_that_were_counted(browser, seven, monkeypatch):
    monkeypatch.setattr(runs_list, "COUNT_MAX", 4)
    page = shown(browser)
    assert "7 of 4+" in page
    assert "the newest 4" in page
    assert "4 in all" in page


def test_none_for_this_filter_is_not_none_at_all(browser, seven):
    page = shown(browser, q="state:aborted zebra")
    assert "No run matches all of this" in page
    assert page.count('aria-label="Remove filter state aborted"') == 2
    assert "Clear all, show every run" in page
    assert "Nothing has been run yet" not in page


def test_a_bad_line_says_where_and_keeps_what_was_there(browser, seven):
    answer = browser.get("/runs?q=started:-4h+stat:fialed&last=state:failed")
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "started:-4h <mark>stat</mark>:fialed" in page
    assert "At character 13:" in page
    assert "did you mean state?" in page
    assert 'href="/runs?q=started%3A-4h%20state%3Afailed"' in page
    assert 'value="started:-4h stat:fialed"' in page
    assert titles(page) == [2, 1]
    assert 'name="last" value="state:failed"' in page


def test_a_last_line_that_is_bad_too_is_let_go(browser, seven):
    answer = browser.get("/runs?q=nope:1&last=nope:2")
    assert answer.status_code == 422
    assert len(titles(answer.content.decode())) == 7


def test_a_good_line_forgets_the_last_one(browser, seven):
    assert browser.get("/runs?q=state:failed&last=fees").headers["Location"] == "/runs?q=state%3Afailed"


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"field": "state", "operator": "not", "value": "failed", "q": "fees"}, "fees -state:failed"),
        ({"field": "cost", "operator": "more", "value": "0.5", "q": ""}, "cost:>0.5"),
        ({"field": "text", "operator": "is", "value": "two words", "q": ""}, '"two words"'),
        ({"field": "session", "operator": "is", "value": 'o"c', "q": ""}, "session:oc"),
        ({"field": "session", "operator": "strange", "value": " ", "q": "fees"}, "fees"),
        ({"state": "failed"}, "state:failed"),
    ],
)
def test_one_more_filter_without_script(browser, seven, asked, line):
    answer = browser.get("/runs", asked, follow=True)
    assert answer.status_code == 200 if "fail" in line or not line else True
    assert f'id="q" name="q" value="{line}"' in unescape(answer.content.decode()).replace("&quot;", '"')


def test_the_form_offers_every_field(browser, seven):
    page = shown(browser)
    assert set(re.findall(r'<option value="(\w+)">\w+: ', page)) == set(FIELDS)


@pytest.mark.parametrize("asked", ["before=x", "after=x", "before=1.", "before=" + "9" * 40 + ".a"])
def test_a_bad_cursor_is_a_sentence(browser, asked):
    answer = browser.get(f"/runs?{asked}")
    assert answer.status_code == 422
    assert b"is no cursor of this list" in answer.content


def test_another_workspaces_runs_are_not_there(browser, stranger, seven):
    fabric_publish(actor=stranger, source=SMALL.replace("name: small", "name: theirs"))
    foreign = queued(stranger, "theirs", "request 9")
    assert 9 not in titles(shown(browser))
    assert titles(shown(browser, q=f"id:{foreign}")) == []
    assert browser.get("/runs?q=fabric:theirs").status_code == 422
    news = browser.get(f"/runs/news?seen={foreign}.0").content.decode()
    assert "request 9" not in news


@pytest.fixture
def never_answers(monkeypatch) -> None:
    monkeypatch.setattr(database_time, "STEPS", 1)
    for limit in ("PAGE_LIMIT_S", "COUNT_LIMIT_S"):
        monkeypatch.setattr(runs_list, limit, 0.0)


def test_a_filter_that_is_too_slow_is_named(browser, seven, never_answers):
    answer = browser.get("/runs?q=zebra+state:failed+cost:>1")
    page = unescape(answer.content.decode())
    assert answer.status_code == 503
    assert "did not answer within" in page
    assert re.search(r'id="live".*?As of <span class="muted" data-age>\d\d:\d\d:\d\d UTC, reload</span>', page)
    assert "No index answers <code>zebra</code>, <code>cost:>1</code>" in page
    assert "/runs?q=zebra+state%3Afailed+cost%3A%3E1+started%3A-1d" in page


@pytest.mark.parametrize(
    ("line", "helps"),
    [
        ("zebra", "zebra started:-1d"),
        ("zebra started:-30d", "zebra started:-1d"),
        ("zebra started:2026-01-01..2026-06-01", "zebra started:-1d"),
        ("started:-1d zebra", "zebra started:-1h"),
        ("zebra started:-90m", "zebra started:-1h"),
        ("zebra started:<2026-06-01", "zebra started:-1d"),
        ("zebra started:-30m", ""),
    ],
)
def test_what_would_help_a_slow_filter_leaves_less_of_time(browser, seven, never_answers, line, helps):
    page = unescape(browser.get("/runs", {"q": line}).content.decode())
    link = re.search(r'<a class="btn primary" href="/runs\?q=([^"]+)"', page)
    assert (unquote_plus(link[1]) if link else "") == helps


def test_what_stands_beside_the_rows_may_be_missing(browser, seven, monkeypatch):
    def away(*args, **kwargs):
        raise DatabaseError("the disk is slow")

    for name in ("runs_matched", "runs_counts"):
        monkeypatch.setattr(f"console.pages.runs.list.views.{name}", away)
    page = shown(browser)
    assert len(titles(page)) == 7
    assert "took too long to count" in page


def test_news_of_a_page(browser, actor, small, seven):
    page = shown(browser)
    seen = ",".join(f"{run}.{seq}" for run, seq in re.findall(r'<tr id="run-([^"]+)" data-seq="(\d+)"', page))
    assert 'data-news="0"' in browser.get("/runs/news", {"seen": seen}).content.decode()
    newer = queued(actor, small, "request 8")
    Run.objects.filter(id=seven[4]).update(state="running", last_seq=5)
    news = browser.get("/runs/news", {"seen": seen}).content.decode()
    assert 'data-news="1"' in news
    assert titles(news) == [4]
    assert f'id="run-{seven[4]}" data-seq="5"' in news
    assert "Running" in news
    assert newer not in news
    assert 'data-news="0"' in browser.get("/runs/news", {"seen": seen, "q": "state:failed"}).content.decode()
    assert 'data-news="0"' in browser.get("/runs/news", {"seen": seen, "new": "no"}).content.decode()


@pytest.mark.parametrize("seen", ["", ",", "x.1", "x", "a" * 36 + ".-1", "a" * 36 + ".²", ("a" * 36 + ".1,") * 500])
def test_what_a_page_claims_to_have_seen_may_be_anything(browser, seven, seen):
    assert browser.get("/runs/news", {"seen": seen}).status_code == 200


@pytest.mark.parametrize(("asked", "status"), [({"q": "nope:1"}, 422), ({"down": "x"}, 422)])
def test_news_of_nonsense(browser, asked, status):
    answer = browser.get("/runs/news", asked, headers={"HX-Request": "true"})
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_no_query_a_row(browser, actor, small):
    def queries() -> int:
        with CaptureQueriesContext(connection) as asked:
            shown(browser)
        return len(asked)

    queued(actor, small)
    queries()
    few = queries()
    for _ in range(9):
        queued(actor, small)
    assert queries() == few


def test_what_a_caller_wrote_is_inert(browser, actor, small):
    run_id = queued(actor, small, "<script>alert(1)</script> \u202eevil \x1b[31m")
    Run.objects.filter(id=run_id).update(session_key='"><img src=x>\u200b')
    page = shown(browser)
    asked = browser.get("/runs?q=state:\u202e<u>").content.decode() + shown(browser, q='"<i>\u202e" session:"<u>"')
    assert not re.search(r"<script>alert|<img|<i>|<u>", page + asked)
    # What was typed stands in its field as it was; what is read is shown by number.
    assert not re.search("[\u202e\x1b\u200b]", page + re.sub(r'="[^"]*"', "", asked))
    assert "⟨U+202E⟩" in page
    assert "⟨U+202E⟩" in asked


def test_the_chart_and_its_table_say_the_same(browser, actor, small):
    done = ran(actor, small)
    Run.objects.filter(id=done.id).update(recovered=True)
    Run.objects.filter(id=queued(actor, small)).update(state="aborted", ended_at=1)
    Run.objects.filter(id=queued(actor, small)).update(state="cancelled", ended_at=1)
    Run.objects.filter(id=queued(actor, small)).update(state="waiting", recovered=True)
    queued(actor, small)
    page = shown(browser, q="started:-4h")
    assert "5 minutes a bar" in page
    counts = {
        "completed": 0,
        "completed after recovery": 1,
        "failed, aborted or stopped": 1,
        "cancelled": 1,
        "not ended yet": 2,
    }
    legend = re.search(r'<ul class="legend">.*?</ul>', page, re.DOTALL)[0]
    assert dict(re.findall(r"</svg>([^<]+) (\d+)</li>", legend)) == {word: str(of) for word, of in counts.items()}
    table = re.search(r'aria-label="Runs started, as a table".*?</table>', page, re.DOTALL)[0]
    assert re.findall(r'<th scope="col" class="num">([^<]+)', table) == [word.capitalize() for word in counts]
    rows = [re.findall(r'<td class="num">(\d+)', row) for row in table.split("<tr>")[2:]]
    assert [sum(int(row[n]) for row in rows) for n in range(5)] == list(counts.values())
    said = ", ".join(f"{of} {word}" for word, of in counts.items())
    assert f': 5 in all, {said}"' in page


@pytest.mark.parametrize(
    ("seconds", "style"), [(20, "full"), (600, "full"), (610, "minute"), (72_000, "minute"), (86_400, "full")]
)
def test_the_ends_of_a_chart_are_told_apart(seconds, style):
    assert Chart(0, seconds * 1_000_000, "", 1, (), cut=False).instant_form == style


def test_what_runs_cost_has_one_precision_and_the_whole_amount_beside_it(browser, actor, small):
    for cost in (3_381, 1_250_000, 7, 0):
        Run.objects.filter(id=queued(actor, small)).update(cost_usd_micros=cost)
    cells = re.findall(r'c-cost" title="([^"]*)">([^<]*)<', unescape(shown(browser)).replace("<$", "less than $"))
    assert sorted(cells) == [
        ("$0.0000", "$0.0000"),
        ("$0.000007", "less than $0.0001"),
        ("$0.003381", "$0.0034"),
        ("$1.2500", "$1.2500"),
    ]


def test_a_bar_may_be_as_wide_as_needed():
    widths = [width for width, _ in WIDTHS_S]
    assert widths == sorted(set(widths))
    assert all(later <= earlier * BARS_MAX for earlier, later in pairwise(widths))


def test_every_state_in_every_stage_has_its_bar():
    for state, stage in product(RunState, ["", *Stage]):
        made = marks(state, stage)
        assert [mark.name for mark in made] == list(Stage), (state, stage)
        assert {mark.tone for mark in made} <= {"ok", "info", "human", "danger", "neutral", "line"}, (state, stage)
        if state is RunState.COMPLETED:
            assert {mark.word for mark in made} == {"passed"}, stage


def test_the_views_are_queries():
    for _, query, _ in TABS:
        assert isinstance(parse(query, now=0), Query)


NAMES = ("sort", "q", "last", "before", "after", "field", "operator", "value", "state")
ANYTHING = st.text(max_size=80) | st.sampled_from(
    [f"{name}:>" for name in FIELDS] + [field.example for field in FIELDS.values()]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, ANYTHING)))  # fmt: skip
def test_any_address_is_answered(browser, seven, asked):
    encoded = urlencode({name: value.encode("utf-8", "replace") for name, value in asked.items()})
    answer = browser.get(f"/runs?{encoded}")
    assert answer.status_code in (200, 302, 422), asked
