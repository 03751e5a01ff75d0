"""The limits' part: folded groups with what is changed in each, found by words, and the changed ones alone."""

from __future__ import annotations

import re

import pytest
from django.template.loader import render_to_string
from django.test import Client

from console.editor.parts.catalogue import PARTS
from console.editor.parts.limits import Group, build
from fabric.core.people.actor import Actor
from fabric.services.drafts.changes import draft_of_fabric
from tests.console.editor.drafted import seen
from tests.console.editor.rich import RICH


def groups(text: str = RICH, **asked: str) -> dict[str, Group]:
    return {one.name: one for one in build(seen(text, **asked))["groups"]}


def shown(text: str = RICH, **asked: str) -> set[str]:
    """Paths of the limits that are shown."""
    return {row.field.path for one in groups(text, **asked).values() for row in one.rows if not row.hidden}


def drawn(text: str = RICH, **asked: str) -> str:
    found = seen(text, **asked)
    return render_to_string(PARTS["limits"].template, {"editing": found, "draft": found.draft, **build(found)})


def test_groups_are_folded_and_say_how_many_are_changed() -> None:
    found = groups()
    assert not any(one.open for one in found.values())
    assert found["budget"].own == 1
    assert found["limits"].own == 0
    page = drawn()
    assert re.search(r'id="g.budget">\s*<summary>.*?1 changed', page, re.DOTALL)
    assert "hidden>" not in page.replace('id="limits-none" role="status" hidden>', "")


def test_a_group_with_an_error_is_open() -> None:
    found = groups(RICH.replace("{run_usd_micros: 1000000}", "{run_usd_micros: 1000000, run_tokens: many}"))
    assert [name for name, one in found.items() if one.open] == ["budget"]


def test_words_are_looked_for_in_label_help_and_path() -> None:
    assert shown(find="run_usd_micros") == {"policy.budget.run_usd_micros"}
    by_words = shown(find="  Money RUN ")
    assert "policy.budget.run_usd_micros" in by_words
    assert "policy.limits.turns" not in by_words
    assert [name for name, one in groups(find="run_usd_micros").items() if one.open] == ["budget"]
    assert {name for name, one in groups(find="run_usd_micros").items() if not one.hidden} == {"budget"}


def test_only_the_changed_ones() -> None:
    assert shown(changed="1") == {"policy.budget.run_usd_micros"}
    assert shown(changed="1", find="turns") == set()
    nested = {one.node.path: one.hidden for one in build(seen(RICH, changed="1"))["nested"]}
    assert all(nested.values())
    own = RICH.replace("  tau: 0.8\n", "  tau: 0.8\n  limits: {max_visits: {plan: 2}}\n")
    nested = {one.node.path: (one.hidden, one.own) for one in build(seen(own, changed="1"))["nested"]}
    assert nested["policy.limits.max_visits"] == (False, 1)


def test_words_of_no_limit_are_told() -> None:
    assert build(seen(RICH, find="zebra"))["none_found"]
    assert 'id="limits-none" role="status">' in drawn(find="zebra")


@pytest.mark.parametrize("field", ["find", "changed"])
def test_the_page_filters_without_a_script_and_its_form_keeps_the_filter(
    browser: Client, actor: Actor, small: str, field: str
) -> None:
    draft_of_fabric(actor=actor, name=small)
    text = "run_usd_micros" if field == "find" else "1"
    page = browser.get(f"/fabrics/{small}/draft", {"part": "limits", field: text}).content.decode()
    assert re.search(r'id="row.policy.budget.run_usd_micros">', page)
    assert re.search(r'id="row.policy.limits.turns" hidden>', page)
    assert f'<input type="hidden" name="{field}" value="{text}"' in page
