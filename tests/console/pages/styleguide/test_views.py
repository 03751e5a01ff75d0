"""The style guide: for staff, and with every component in every state."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from console.pages.shell.keys import KEYS
from console.pages.styleguide.views import GROUNDS, LIVE_SAID, TONES
from console.templatetags.marks import FAILURES, LIVE_LOOKS, STATES, TIERS
from fabric.selectors.runs.display import EVENT_DISPLAY
from tests.people import member, signed_in


def of(user: User) -> Client:
    return signed_in(user)


def test_the_owner_sees_it(browser):
    answer = browser.get("/styleguide")
    assert answer.status_code == 200
    assert b"Visual language" in answer.content


def test_staff_sees_it(owner):
    assert of(member("ana", is_staff=True)).get("/styleguide").status_code == 200


def test_another_person_gets_the_page_that_says_so(owner):
    answer = of(member("ben")).get("/styleguide")
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "This page is for staff" in page
    assert "No permission" in page
    assert re.findall(r'<a class="btn" href="([^"]*)">', page.partition('class="state wide"')[2]) == ["/"]


@pytest.fixture
def page(browser) -> str:
    """Its text, one line for each run of white space."""
    found = browser.get("/styleguide").content.decode()
    return unescape(" ".join(found.partition('<div class="stack sg">')[2].split()))


def test_every_word_of_the_tables_is_there(page):
    words = [word for word, _, _ in STATES.values()] + [*TIERS.values(), *FAILURES.values()]
    words += [key.does for _, group in KEYS for key in group] + [meaning for _, meaning in LIVE_SAID.values()]
    assert [word for word in words if str(word) not in page] == []


def test_every_look_tone_and_ground_is_there(page):
    assert set(re.findall(r'data-live="(\w+)"', page)) == set(LIVE_LOOKS) == set(LIVE_SAID)
    tokens = (settings.BASE_DIR / "static" / "shell" / "tokens.css").read_text()
    toned = set(re.findall(r'^  \[data-tone="(\w+)"\]', tokens, flags=re.MULTILINE))
    assert set(re.findall(r'<li data-tone="(\w+)" class="sw-tone"', page)) == toned == set(TONES)
    assert set(re.findall(r'class="sw-(\w+)"', page)) - {"tone"} == set(GROUNDS)


def test_an_event_of_each_tone_and_importance_is_there_whole(page):
    table = page.partition('class="table events"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", table.partition("<tbody>")[2])
    assert len(rows) == len({(row.tone, row.importance) for row in EVENT_DISPLAY.values()})
    for row in rows:
        cells = [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)]
        assert len(cells) == 5
        assert all(cells), cells
