"""One draft in two pages: what both changed is asked, with a script and without, and nothing that was typed is lost."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from fabric.selectors.drafts import draft_get
from fabric.services import drafts
from fabric.services.yaml_tree import read_yaml
from tests.fabric.services.world import SMALL

PAGE = "/fabrics/small/draft?part=basics"
HX = {"HX-Request": "true"}


@pytest.fixture
def draft(actor, small):
    return drafts.draft_of_fabric(actor=actor, name=small)


def sent(browser, step, page, headers=None, **fields):
    given = {
        "step": step,
        "page": page,
        "part": "basics",
        **{key.replace("__", "."): one for key, one in fields.items()},
    }
    return browser.post(PAGE, given, headers=headers or {})


def kept_in(answer):
    """What the page hands on of what could not be saved."""
    found = re.search(r'name="kept" value="([^"]*)"', answer.content.decode())
    return unescape(found[1]) if found else ""


def now(actor):
    return read_yaml(draft_get(actor, "small").text).value


@pytest.fixture(params=[{}, HX], ids=["without a script", "with a script"])
def headers(request):
    return request.param


@pytest.fixture
def conflict(browser, draft, headers):
    """Two pages that showed the same; the second one's answer."""
    assert sent(browser, 0, "one", headers, f__title="Of one").status_code in (200, 302)
    answer = sent(browser, 0, "two", headers, f__title="Of two", f__description="Only of two.")
    assert answer.status_code == 409
    return answer


def test_both_are_shown_and_nothing_of_either_is_lost(actor, conflict):
    shown = conflict.content.decode()
    for words in ("A small fabric", "Of one", "Of two", "Save with these choices", "Leave mine out"):
        assert words in shown
    assert ["f.description", "Only of two."] in json.loads(kept_in(conflict))
    assert (now(actor)["title"], now(actor).get("description")) == ("Of one", None)


@pytest.mark.parametrize(("side", "stands"), [("mine", "Of two"), ("theirs", "Of one")])
def test_a_choice_saves_it_with_what_was_typed_beside_it(browser, actor, conflict, headers, side, stands):
    answer = sent(browser, 1, "two", headers, kept=kept_in(conflict), do="choose", **{"c.title": side})
    assert answer.status_code == (200 if headers else 302)
    assert (now(actor)["title"], now(actor)["description"]) == (stands, "Only of two.")
    assert kept_in(answer) == ""


def test_what_is_typed_meanwhile_is_saved_and_the_question_stays(browser, actor, conflict, headers):
    answer = sent(browser, 1, "two", headers, kept=kept_in(conflict), f__example="Typed while it asked.")
    assert answer.status_code == 409
    assert now(actor)["example"] == "Typed while it asked."
    assert json.loads(kept_in(answer)) == json.loads(kept_in(conflict))
    sent(browser, 2, "two", headers, kept=kept_in(answer), do="choose", **{"c.title": "mine"})
    found = now(actor)
    assert (found["title"], found["description"], found["example"]) == (
        "Of two",
        "Only of two.",
        "Typed while it asked.",
    )


def test_what_still_stands_in_a_field_settles_nothing(browser, actor, conflict, headers):
    """A script leaves in its field what somebody typed there: who goes on in another field has not chosen."""
    answer = sent(browser, 1, "two", headers, kept=kept_in(conflict), f__title="Of two", f__example="More.")
    assert answer.status_code == 409
    assert (now(actor)["title"], now(actor)["example"]) == ("Of one", "More.")


def test_mine_may_be_left_out(browser, actor, conflict, headers):
    answer = sent(browser, 1, "two", headers, kept=kept_in(conflict), do="leave")
    assert (answer.status_code, kept_in(answer)) == (200 if headers else 302, "")
    assert (now(actor)["title"], now(actor).get("description")) == ("Of one", None)


def test_the_question_is_asked_anew_where_theirs_changed_again(browser, actor, conflict, headers):
    sent(browser, 1, "one", headers, f__title="Of one, again")
    answer = sent(browser, 2, "two", headers, kept=kept_in(conflict), f__example="More.")
    assert answer.status_code == 409
    assert "Of one, again" in answer.content.decode()


def test_the_whole_text_conflicts_as_well(browser, actor, draft, headers):
    sent(browser, 0, "one", headers, f__title="Of one")
    given = {"step": 0, "page": "two", "part": "yaml", "text": SMALL.replace("A small fabric", "Of two")}
    answer = browser.post("/fabrics/small/draft?part=yaml", given, headers=headers)
    assert answer.status_code == 409
    chosen = {"step": 1, "page": "two", "part": "yaml", "kept": kept_in(answer), "do": "choose", "c.title": "mine"}
    browser.post("/fabrics/small/draft?part=yaml", chosen, headers=headers)
    assert now(actor)["title"] == "Of two"


@pytest.mark.parametrize("kept", ["", "{", "[1]", '[["a"]]', '[["a", 1]]', "null", '{"a": "b"}', "[" * 5_000])
def test_what_is_handed_on_may_be_anything(browser, actor, draft, kept):
    answer = sent(browser, 0, "two", kept=kept, do="choose", f__title="Mine")
    assert answer.status_code == 422
    assert now(actor)["title"] == "A small fabric"


def test_what_cannot_be_read_just_now_is_kept_to_be_tried_again(browser, actor, draft, headers):
    """Another page has made the text no YAML: a field has nowhere to go, and stays on the page."""
    broken = {"step": 0, "page": "one", "part": "yaml", "text": "name: ["}
    browser.post("/fabrics/small/draft?part=yaml", broken, headers=headers)
    answer = sent(browser, 0, "two", headers, f__title="Of two")
    assert answer.status_code == 409
    assert "Try again" in answer.content.decode()
    assert "Of two" in answer.content.decode()
    drafts.draft_undo(actor=actor, name="small", step=1)
    sent(browser, 0, "two", headers, kept=kept_in(answer), do="choose")
    assert now(actor)["title"] == "Of two"
