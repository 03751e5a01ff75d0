"""The page of the history: figures, decisions, filters in the address, and the file."""

from __future__ import annotations

import re
import time
from html import unescape

import pytest
from asgiref.sync import async_to_sync

from console.pages.reviews.history import TONES, VERB_WORDS
from fabric.core.values.units import US
from fabric.models import AuditLine
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.reviews.decisions.figures import TauPosition
from fabric.selectors.reviews.decisions.history import VERBS
from tests.fabric.services.reviews.decided import decided, many
from tests.fabric.services.world import ran
from tests.people import member, signed_in

PAGE, FILE = "/reviews/history", "/reviews/history/export"


def text(response):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def body(response):
    async def pieces():
        return [piece async for piece in response.streaming_content]

    return b"".join(async_to_sync(pieces)()).decode()


@pytest.fixture
def some(actor, small):
    """Decisions of today: by two people, one expired, one late."""
    run_id, now = ran(actor, small).id, time.time_ns() // 1_000
    scored = {"score": 0.65, "tau": 0.7}
    many(
        *(decided(run_id, decided_at=now - n, **scored) for n in range(1, 21)),
        decided(run_id, "edit", "ben", decided_at=now - 30, due_at=now - 60 * US, took_s=7_200, item="failure"),
        decided(run_id, "reject", "system", by_system=True, decided_at=now - 31),
        decided(run_id, "withdrawn", "the run ended", by_system=True, decided_at=now - 32),
    )
    return run_id


def test_every_word_is_there():
    assert set(VERB_WORDS) == set(VERBS)
    assert set(TONES) == set(TauPosition)


def test_nothing_decided_says_so_and_where_to_look(browser, actor):
    response = browser.get(PAGE)
    assert "Nothing was decided in the last 30 days" in text(response)
    assert "Show all" in text(response)
    assert "CSV" not in text(response)


def test_figures_and_decisions(browser, some):
    shown = text(browser.get(PAGE))
    assert "22 decisions in the last 30 days: 21 by people" in shown
    assert "1 expired" in shown
    assert "Of 20 results that scored up to 0.1 below the needed score (0.7), people approved 20 unchanged" in shown
    assert "the needed score may be too high" in shown
    assert "no one answered in time" in shown
    assert "2 h" in shown
    assert "late" in shown
    assert "withdrawn" not in shown.partition("newest first")[2]


def test_too_few_are_not_taken_for_a_good_sign(browser, some):
    assert "Too few decisions: people decided 0 of the 20 needed" not in text(browser.get(PAGE))
    assert "No person decided about a score below the needed one" in text(browser.get(f"{PAGE}?item=failure"))


def test_filters_stand_in_the_address_and_can_be_taken_away(browser, some):
    shown = browser.get(f"{PAGE}?by=ben&item=failure&within=7d")
    assert "1 decision in the last 7 days" in text(shown)
    assert 'href="/reviews/history?within=7d&amp;by=ben"' in shown.content.decode()
    assert "No decision in the last 30 days is like that" in text(browser.get(f"{PAGE}?by=nobody"))


@pytest.mark.parametrize("query", ["within=never", "verb=nonsense", "who=x", "tier=%00", "after=x"])
def test_a_word_that_is_not_offered_is_said_on_the_page(browser, some, query):
    shown = browser.get(f"{PAGE}?{query}&by=ben")
    assert shown.status_code == 422
    assert "Not understood" in text(shown)
    assert "CSV" not in text(shown)
    assert 'name="by" value="ben"' in shown.content.decode()
    if "after" not in query:
        assert browser.post(FILE, {"form": "csv", **dict([query.split("=")])}).status_code == 422


def test_older_ones_are_a_page_on(browser, some, monkeypatch):
    monkeypatch.setattr("console.pages.reviews.history.ROWS", 15)
    first = browser.get(PAGE)
    older = unescape(re.search(r'rel="next" href="([^"]+)"', first.content.decode())[1])
    second = browser.get(older)
    ids = [re.findall(r'href="/reviews/([0-9a-f]{16})"', page.content.decode()) for page in (first, second)]
    assert (len(ids[0]), len(ids[1]), len({*ids[0], *ids[1]})) == (15, 7, 22)
    assert browser.get(f"{PAGE}?after=x").status_code == 422


def test_figures_that_take_too_long_leave_the_decisions(browser, some, monkeypatch):
    def slow(*_, **__):
        raise TookTooLong("the database did not answer within 2 s")

    monkeypatch.setattr("console.pages.reviews.history.decision_figures", slow)
    shown = browser.get(PAGE)
    assert shown.status_code == 200
    assert "The decisions below are complete" in text(shown)
    monkeypatch.setattr("console.pages.reviews.history.decided_page", slow)
    shown = browser.get(PAGE)
    assert shown.status_code == 503
    assert "Choose a shorter time" in text(shown)


def test_text_of_a_person_does_not_act(browser, actor, small):
    now = time.time_ns() // 1_000
    many(decided(ran(actor, small).id, by="<b>x</b>", reason="<script>1</script>\u202e", decided_at=now))
    shown = browser.get(PAGE).content.decode()
    assert "<script>1" not in shown
    assert "<b>x" not in shown
    assert "\u202e" not in shown


def test_the_file_is_streamed_and_told(browser, some):
    response = browser.post(FILE, {"form": "csv", "verb": "edit"})
    assert response.headers["Content-Disposition"] == 'attachment; filename="decisions.csv"'
    assert len(body(response).splitlines()) == 2
    assert AuditLine.objects.filter(kind="decisions_exported").count() == 1
    assert browser.get(FILE).status_code == 405
    assert browser.post(FILE, {"form": "xlsx"}).status_code == 422


def test_a_reviewer_exports_their_own(some):
    ben = signed_in(member("ben", "reviewer"))
    assert 'name="by" value="ben"' in ben.get(PAGE).content.decode()
    assert ben.post(FILE, {"form": "ndjson"}).status_code == 403
    assert body(ben.post(FILE, {"form": "ndjson", "by": "ben"})).count("\n") == 1


def test_a_page_takes_few_statements(browser, some, django_assert_max_num_queries):
    browser.get(PAGE)
    with django_assert_max_num_queries(18):
        browser.get(PAGE)
