"""The page of protections: every mechanism with the MAST classes that it answers (docs/specification/failures.md)."""

from __future__ import annotations

import html
import re

import pytest

from console.launch.processes.data_directory import ROOT
from console.pages.protections.views import CLASSES
from fabric.core.mechanisms import ORDER
from fabric.core.spec.policies.breakers import UNNAMED
from fabric.core.spec.policies.budgets import Budget
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.values.taxonomy import FailureClass
from fabric.selectors.runs.events.explanations import OF_NO_CLASS
from fabric.selectors.runs.margins.protections import measures, protections


def test_the_table_is_total():
    names = [module.NAME for module in ORDER]
    assert all(one.title and one.stops and (ROOT / one.source).is_file() for one in protections())
    assert set(CLASSES) == set(FailureClass)
    assert [one.name for one in protections()] == names
    # docs/specification/failures.md: the breaker, budgets, saga and watchdog included.
    assert {"circuit_breaker", "budget", "saga", "stall_watchdog", "run_caps", "deadlock_monitor"} <= set(names)


def test_each_class_is_answered_by_a_protection():
    assert all(any(one.answers(which) for one in protections()) for which in FailureClass)


def test_defaults_are_those_of_the_rules():
    """docs/specification/protections.md: 5 handoffs, 8 levels, 25 turns, 16 calls a turn; a bucket of 10 retries; tau and money have rows of their own."""
    said = {one.name: dict(one.defaults) for one in protections()}
    limits = said["hop_limit"]
    assert [
        limits[title] for title in ("Handoffs", "Depth of child runs", "Model turns of a step", "Tool calls of a turn")
    ] == [
        "5",
        "8",
        "25",
        "16",
    ]
    assert said["retry_budget"]["Retry budget"] == "10"
    assert "Money of a run" not in said["budget"]


def test_the_page_has_a_row_each_and_says_where_the_classes_are_from(browser):
    page = browser.get("/protections")
    assert page.status_code == 200
    text = page.content.decode()
    for one in protections():
        row = re.search(rf'<tr id="{one.name}">.*?</tr>', text, re.DOTALL)
        assert row is not None
        assert row.group().count('data-tone="ok"') == len(one.classes)
    assert "MAST" in text
    assert "Cemri" in text


@pytest.mark.parametrize("name", ["replan_budget", "plan_critic", "outcome_oracle", "cost_per_success"])
def test_what_answers_a_class_and_is_no_mechanism_has_a_row_too(browser, name):
    (one,) = [measure for measure in measures() if measure.name == name]
    text = html.unescape(browser.get("/protections").content.decode())
    (row,) = re.findall(rf'<tr id="{name}">.*?</tr>', text, re.DOTALL)
    assert row.count('data-tone="ok"') == len(one.classes) >= 1
    assert one.default in row


def test_the_default_breaker_is_said_to_be_on_by_its_own_numbers(browser):
    said = {one.name: one.otherwise for one in protections()}["circuit_breaker"]
    assert (
        said
        == "on: in front of each provider, opens at 3 in a row (rate limit, server error, timeout), probes after 30 s"
    )
    assert said in browser.get("/protections").content.decode()
    assert FlowPolicy(budget=Budget(run_usd_micros=1)).breakers == UNNAMED


def test_the_page_says_why_a_provider_failure_has_no_class(browser):
    assert OF_NO_CLASS in browser.get("/protections").content.decode()


def test_a_stranger_is_not_shown_it(client):
    assert client.get("/protections").status_code in (302, 401, 403)
