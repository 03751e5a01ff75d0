"""The health page: what is wrong with the installation comes first, each with its remedy."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.utils import timezone

from console.installation.doctor.checks import CHECKS, Asks, Level, note, unknown, wrong
from console.pages.installation.status import LEFT_OUT, LOOKS, CheckRow, write_headline
from fabric.models import Incarnation
from tests.people import member, signed_in

A_WRONG, A_NOTE = wrong("It is broken.", "Mend it."), note("It is old.", "Replace it.")
A_DOUBT = unknown("It cannot be seen.", "Look at it.")


def text(answer):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())).split())


def test_every_level_has_its_look():
    assert set(LOOKS) == {None, *Level}


@pytest.mark.parametrize(
    ("findings", "sentence", "tone"),
    [
        ((), "Nothing is wrong", "ok"),
        ((A_NOTE,), "Nothing is wrong", "ok"),
        ((A_NOTE, A_DOUBT), "1 thing is unknown", "warn"),
        ((A_DOUBT, A_WRONG, A_NOTE), "1 thing is wrong", "danger"),
    ],
)
def test_the_headline_says_the_worst(findings, sentence, tone):
    said = write_headline([CheckRow("disk", "one", findings), CheckRow("broker", "another", ())])
    assert (said.sentence, said.tone) == (sentence, tone)


def test_without_a_worker_the_page_says_so_first_and_what_to_do(browser):
    answer = browser.get("/installation")
    page = text(answer)
    assert "Wrong No worker is alive; 0 runs are due. workers Start one:" in page
    assert page.index("No worker is alive") < page.index("OK")
    for name, check in CHECKS.items():
        shown = f'<span class="two">{name}</span>' in answer.content.decode()
        assert shown is (check.asks is not Asks.NETWORK and name != LEFT_OUT), name


def test_a_live_worker_is_listed(browser):
    now = int(timezone.now().timestamp() * 1e6)
    Incarnation.objects.create(name="w-1", host="box", pid=77, started_at=now, lease_until=now + 60_000_000)
    page = text(browser.get("/installation"))
    assert "Alive box" in page
    assert "No worker is alive" not in page


def test_it_is_for_staff_and_offered_to_staff_alone(browser, owner):
    assert b'href="/installation"' in browser.get("/runs").content
    someone = signed_in(member("ana"))
    assert someone.get("/installation").status_code == 403
    assert b'href="/installation"' not in someone.get("/runs").content
