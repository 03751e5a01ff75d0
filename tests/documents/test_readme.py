"""The README is true beside its commands: labels of pages, versions, the address, exit codes. Its commands: ``test_tutorials``."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from console.launch.processes.data_directory import PORT, ROOT
from console.launch.processes.interpreter import NEWEST, OLDEST
from fabric.core.people.actor import Actor
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.management.base import BAD_INPUT, OK, OTHER_END, WAITING
from fabric.services.fabrics.templates import samples_publish
from tests.console.conftest import actor, browser, owner

__all__ = ["actor", "browser", "owner"]
TEXT = (ROOT / "README.md").read_text()
FIVE_MINUTES = TEXT.partition("## Five minutes")[2].partition("## A real model")[0]
PAGES = {"Start": "/", "Start the run": "/runs/start", "Fabrics": "/", "Reviews": "/"}
"""Where each label of the README stands."""


@pytest.mark.django_db(transaction=True)
def test_each_label_stands_on_its_page(browser: Client, actor: Actor) -> None:
    samples_publish(actor=actor)
    labels = re.findall(r"\*\*([^*]+)\*\*", FIVE_MINUTES)
    assert set(labels) == set(PAGES)
    for label in labels:
        assert label in browser.get(PAGES[label]).content.decode(), label
    start = browser.get("/runs/start").content.decode()
    assert "First look" in start


def test_what_it_needs_and_where_it_runs() -> None:
    assert f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}" in TEXT
    assert f"`http://127.0.0.1:{PORT}`" in TEXT


def test_the_exit_codes_and_the_table() -> None:
    codes = {"completed": OK, "any other end": OTHER_END, "bad input": BAD_INPUT, "when a person is asked": WAITING}
    assert (
        "The exit code is {completed} for completed, {any other end} for any other end, {bad input} for bad input, and "
        "{when a person is asked} when a person is asked."
    ).format(**codes) in TEXT
    assert f"{len(FailureType)} kinds of failure in {len(Tier)} tiers" in TEXT
    assert f"{len(FailureType) * len(Tier)} of {len(FailureType) * len(Tier)} cells passed" in TEXT
