"""The tables of words, tones and icons are total, and every icon is in the sprite."""

import re
from types import SimpleNamespace

import pytest
from django.conf import settings

from console.pages.reviews.parts.consequences import WORDS
from console.templatetags.marks import EVENT_ICONS, FAILURES, STATES, TIERS, state_badge, state_icon
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.runs.display import EVENT_DISPLAY

SPRITE = set(re.findall(r'<symbol id="i-([\w-]+)"', (settings.BASE_DIR / "static" / "icons.svg").read_text()))


def test_every_state_tier_and_failure_has_its_words():
    assert set(STATES) == set(RunState)
    assert set(TIERS) == set(Tier)
    assert set(FAILURES) == set(FailureType)


def test_every_kind_of_event_has_an_icon():
    assert {row.icon for row in EVENT_DISPLAY.values()} <= set(EVENT_ICONS)


def test_every_icon_is_in_the_sprite():
    named = {icon for _, _, icon in STATES.values()} | set(EVENT_ICONS.values())
    for template in (settings.BASE_DIR / "templates").rglob("*.html"):
        text = template.read_text()
        named |= set(re.findall(r'{% icon "([\w-]+)"', text)) | set(
            re.findall(r'{% badge "[^"]*" "\w+" "([\w-]+)"', text)
        )
    named |= {"check", "run", "human", "x", "minus", "unknown"}
    assert named - SPRITE == set()


def test_every_answer_of_a_person_has_an_icon_of_the_sprite():
    assert {icon for icon, _, _ in WORDS.values()} <= SPRITE


@pytest.mark.parametrize("state", list(RunState))
def test_a_state_is_icon_word_and_colour(state):
    shown = state_badge(SimpleNamespace(state=state, recovered=False, waits_for=None))
    word, tone, icon = STATES[state]
    assert f'data-tone="{tone}"' in shown
    assert f"#i-{icon}" in shown
    assert word in shown


@pytest.mark.parametrize("mark", [state_badge, state_icon])
def test_who_waits_for_the_provider_is_not_marked_as_running(mark):
    run = {"state": RunState.RUNNING, "recovered": False}
    assert "Waiting for the provider" in mark(SimpleNamespace(**run, waits_for="provider"))
    assert "Running" in mark(SimpleNamespace(**run, waits_for=None))


def test_after_recovery_never_looks_clean():
    clean = state_badge(SimpleNamespace(state=RunState.COMPLETED, recovered=False, waits_for=None))
    recovered = state_badge(SimpleNamespace(state=RunState.COMPLETED, recovered=True, waits_for=None))
    assert "after recovery" in recovered
    assert 'class="badge recovered"' in recovered
    assert "recovered" not in clean
