"""The keys: what the sheet says and what the script does cannot disagree."""

from __future__ import annotations

import re
from typing import get_args

import pytest
from django.conf import settings
from django.urls import reverse

from console.pages.reviews.parts.consequences import WORDS
from console.pages.runs.page import VIEWS
from console.pages.shell.keys import KEYS, Key, KeyAct

SCRIPT = (settings.BASE_DIR / "static" / "shell" / "keys.js").read_text()
ROWS = [key for _, group in KEYS for key in group]


def test_the_script_does_what_the_table_names_and_nothing_else():
    does = re.search(r"^const DOES = \{\n(.*?)^\};", SCRIPT, flags=re.DOTALL | re.MULTILINE)
    assert does
    assert set(re.findall(r"^  (\w+):", does[1], flags=re.MULTILINE)) == set(get_args(KeyAct))
    assert {key.do for key in ROWS} == set(get_args(KeyAct))


def test_the_script_names_no_key_of_its_own():
    assert not re.search(r"event\.key === \"[a-z/?.]\"", SCRIPT)


def test_no_two_rows_have_the_same_keys():
    for _, group in KEYS:
        assert len({key.keys for key in group}) == len(group)
    keys = [key.keys for key in ROWS]
    # A key of two groups is pressed on the pages that have what it presses: no page has both.
    assert len({(key.keys, key.to) for key in ROWS}) == len(ROWS)
    first_of_two = {key.split()[0] for key in keys if " " in key and not key.startswith("Ctrl")}
    assert first_of_two & set(keys) == set()


def test_every_place_that_a_key_goes_to_is_there():
    assert [key.to for key in ROWS if key.do == "go" and not reverse(key.to)] == []


def test_everything_that_a_key_presses_stands_on_some_page():
    written = "".join(path.read_text() for path in (settings.BASE_DIR / "templates").rglob("*.html"))
    named = set(re.findall(r'data-press="([^"]*)"', written)) | {f"view-{name}" for name, _ in VIEWS}
    assert {"view-{{ name }}", "verb-{{ one.verb }}"} <= named
    named |= {f"verb-{verb}" for verb in WORDS}
    assert [key.to for key in ROWS if key.do == "press" and key.to not in named] == []


@pytest.mark.parametrize(
    ("keys", "bare"), [("g o", True), ("?", True), ("Ctrl K", False), ("Enter", False), ("Esc", False)]
)
def test_what_can_be_turned_off(keys, bare):
    assert Key(keys, "", "sheet").bare is bare


def test_the_sheet_has_every_row(browser):
    page = browser.get("/runs").content.decode()
    sheet = re.search(r'<dialog id="keys".*?</dialog>', page, flags=re.DOTALL)
    assert sheet
    shown = re.findall(r'data-keys="([^"]*)" data-do="([^"]*)" data-to="([^"]*)"', sheet[0])
    assert shown == [(key.keys, key.do, reverse(key.to) if key.do == "go" else key.to) for key in ROWS]


LISTS = (
    "audit/list",
    "drills/last",
    "drills/schedules/list",
    "fabrics/list",
    "memories/page",
    "models/breakers/board",
    "models/endpoint",
    "notifications/list",
    "people/members/table",
    "people/tokens",
    "reviews/history/page",
    "reviews/list",
    "runs/events/card",
    "runs/list/drills",
    "runs/list/page",
    "scenarios/library_rows",
    "shell/search/page",
)
"""Templates of all lists with a row for each object."""


@pytest.mark.parametrize("name", LISTS)
def test_the_keys_of_a_list_work_in_each_list(name):
    written = (settings.BASE_DIR / "templates" / f"{name}.html").read_text()
    assert " data-list>" in written
