"""Trying a check in the editor: the box, its sample, and what stands under it."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any, get_args

import pytest
from django.contrib.auth.models import User

from console.editor.trial import MARKS, followed, open_path
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.models import DraftStep
from fabric.selectors.drafts.lookup import draft_get
from fabric.selectors.errors import Refused
from fabric.services.actors import find_actor
from fabric.services.drafts.changes import draft_begin
from fabric.services.fabrics.trials.processes import check_try
from fabric.services.fabrics.trials.shapes import Mark
from fabric.services.fabrics.trials.table import triable
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.console.editor.rich import RICH
from tests.people import member

TREE = read_yaml(RICH).value
SAYS = "gates.invariants.0"
OURS = [one for one in triable(TREE) if not one.startswith(("tools.", "memories."))]
PARTS = {one: "topology" if one.startswith("topology.") else "gates" for one in OURS}


def test_every_mark_has_an_icon_a_word_and_a_colour() -> None:
    assert set(MARKS) == set(get_args(Mark))
    assert len({word for word, _, _ in MARKS.values()}) == len(MARKS)


@pytest.mark.parametrize(
    ("path", "button", "then"),
    [
        ("gates.oracle.2", "remove gates.oracle.0", "gates.oracle.1"),
        ("gates.oracle.2", "remove gates.oracle.2", ""),
        ("gates.oracle.2", "remove gates.oracle.3", "gates.oracle.2"),
        ("gates.oracle.2", "up gates.oracle.2", "gates.oracle.1"),
        ("gates.oracle.1", "up gates.oracle.2", "gates.oracle.2"),
        ("gates.oracle.2", "down gates.oracle.2", "gates.oracle.3"),
        ("gates.oracle.0", "up gates.oracle.0", "gates.oracle.0"),
        ("gates.oracle.2", "remove gates.invariants.0", "gates.oracle.2"),
        ("gates.oracle.2", "turn gates.oracle.2=critic", "gates.oracle.2"),
        ("gates.oracle", "remove gates.oracle.0", "gates.oracle"),
        ("policy.tau", "reset policy.tau", "policy.tau"),
        ("policy.tau", "remove", "policy.tau"),
    ],
)
def test_a_box_stays_with_its_check(path: str, button: str, then: str) -> None:
    assert followed(path, button) == then


def test_the_button_that_was_pressed_says_which_box_is_open() -> None:
    assert open_path({"try": "policy.tau", "tried": SAYS}, "") == "policy.tau"
    assert open_path({"tried": SAYS}, "policy.tau") == SAYS
    assert open_path({}, "policy.tau") == "policy.tau"
    assert open_path({"tried": ""}, "") == ""


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def rich(actor: Actor) -> str:
    return draft_begin(actor=actor, name="rich", text=RICH).name


def post(browser: Any, part: str, fields: Mapping[str, str], *, script: bool = True) -> Any:
    data = {"step": "0", "page": "p", "part": part, "tried": "", **fields}
    headers = {"HX-Request": "true"} if script else {}
    return browser.post(f"/fabrics/rich/draft?part={part}", data, headers=headers)


def shown(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def verdict(answer: Any) -> str:
    found = re.search(r'class="tried".*?<span class="badge"[^>]*>.*?</svg>(\w+)', shown(answer), re.DOTALL)
    return found[1] if found else ""


@pytest.mark.parametrize("script", [False, True])
@pytest.mark.parametrize("path", OURS)
def test_each_check_is_tried_on_its_example(browser: Any, rich: str, path: str, script: bool) -> None:
    if path == "gates.citations":
        path = "gates.grounding"
    answer = post(browser, PARTS.get(path, "gates"), {"try": path}, script=script)
    assert answer.status_code == 200
    assert verdict(answer) in ("Passes", "Fails", "Error")
    assert f'id="box.{path}"' in shown(answer)
    assert ("<html" in shown(answer)) is not script


def test_what_was_typed_stays_and_nothing_is_kept(browser: Any, actor: Actor, rich: str) -> None:
    sample = '{"text": "", "citations": [], "gaps": []}'
    answer = post(browser, "gates", {"try": SAYS, "tried": SAYS, f"s.{SAYS}.payload": sample})
    assert verdict(answer) == "Fails"
    assert sample in shown(answer)
    assert "The answer is empty" in shown(answer)
    assert draft_get(actor, rich).text == RICH
    assert DraftStep.objects.count() == 1


def test_a_check_is_tried_as_it_was_typed_with_the_same_form(browser: Any, actor: Actor, rich: str) -> None:
    answer = post(browser, "gates", {"try": SAYS, f"f.{SAYS}.expression": "size(payload.text) > 5000"})
    assert verdict(answer) == "Fails"
    assert "> 5000" in draft_get(actor, rich).text
    answer = post(browser, "gates", {"try": SAYS, f"f.{SAYS}.expression": "size(payload.text) >"})
    assert verdict(answer) == "Error"


def test_an_open_box_follows_what_is_typed(browser: Any, rich: str) -> None:
    answer = post(browser, "gates", {"tried": "policy.tau", "f.policy.tau": "0.95", "s.policy.tau.score": "0.9"})
    assert verdict(answer) == "Fails"
    assert "tau 0.95" in shown(answer)
    assert (
        verdict(post(browser, "gates", {"tried": "policy.tau", "f.policy.tau": "0.5", "s.policy.tau.score": "0.9"}))
        == "Passes"
    )


def test_an_unchanged_example_follows_the_check(browser: Any, rich: str) -> None:
    text = shown(post(browser, "gates", {"try": SAYS}))
    name = f"x.{SAYS}.payload"
    mark = re.search(rf'name="{re.escape(name)}" value="(\w+)"', text)
    example = re.search(rf'<textarea[^>]*id="s.{SAYS}.payload"[^>]*>\n(.*?)</textarea>', text, re.DOTALL)
    assert mark
    assert example
    fields = {f"s.{SAYS}.payload": example[1].replace("\n", "\r\n"), name: mark[1], f"f.{SAYS}.stage": "plan"}
    now = shown(post(browser, "gates", {"tried": SAYS, **fields}))
    assert "exit_criteria" in now.split(f'id="box.{SAYS}"')[1].split("</textarea>")[0]
    mine = example[1].replace("euros", "crowns")
    kept = shown(post(browser, "gates", {"tried": SAYS, **fields, f"s.{SAYS}.payload": mine}))
    assert "crowns" in kept


def test_a_sample_that_cannot_be_read_is_told_at_its_field(browser: Any, rich: str) -> None:
    fields = {"try": SAYS, "tried": SAYS, f"s.{SAYS}.payload": '{"text": '}
    answer = post(browser, "gates", fields)
    assert answer.status_code == 422
    assert "no JSON, line 1" in shown(answer)
    assert f'id="e.s.{SAYS}.payload"' in shown(answer)
    assert '{"text": ' in shown(answer)
    # Typed along with something else it keeps nothing from being saved.
    del fields["try"]
    assert post(browser, "gates", fields).status_code == 200


@pytest.mark.parametrize("path", ["nothing", "agents.0", "stages.nowhere", "x" * 5000, "gates.oracle.99"])
def test_a_path_that_names_no_check_is_told(browser: Any, rich: str, path: str) -> None:
    answer = post(browser, "gates", {"try": path})
    assert answer.status_code == 404
    told = shown(answer).split('id="draft-said"')[1]
    assert re.search("names no check|Nothing stands at|No stage is named", told)


def test_a_check_that_takes_too_long_is_stopped_while_one_types(browser: Any, rich: str) -> None:
    loops = "[0,1,2,3,4,5,6,7,8,9]"
    slow = "true"
    for letter in "abcdefghijk":
        slow = f"{loops}.all({letter}, {slow})"
    answer = post(browser, "gates", {"tried": SAYS, f"f.{SAYS}.expression": slow})
    assert verdict(answer) == "Error"
    assert "took longer than 1 seconds" in shown(answer)


def test_an_address_opens_a_box_and_tries_nothing(browser: Any, rich: str) -> None:
    page = html.unescape(browser.get(f"/fabrics/rich/draft?part=gates&try={SAYS}").content.decode())
    assert f'id="box.{SAYS}"' in page
    assert 'role="status">\n\n</div>' in re.sub(r"\n+", "\n\n", page.split('class="tried"')[1])


def test_a_check_that_is_taken_out_takes_its_box_along(browser: Any, rich: str) -> None:
    text = shown(post(browser, "gates", {"tried": "gates.oracle.1", "do": "remove gates.oracle.0"}))
    assert 'id="box.gates.oracle.0"' in text
    assert 'id="box.' not in shown(
        post(browser, "gates", {"tried": "gates.oracle.0", "step": "1", "do": "remove gates.oracle.0"})
    )


def test_who_may_not_change_fabrics_may_not_try_their_checks(owner: User) -> None:
    someone = find_actor(member("ben", "reviewer"))
    assert not someone.may(Right.EDIT)
    with pytest.raises(Refused, match="may not try the checks") as refused:
        check_try(actor=someone, draft=TREE, path="policy.tau", sample={})
    assert refused.value.code == "forbidden"
