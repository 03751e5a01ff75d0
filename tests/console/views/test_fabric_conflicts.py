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
    assert json.loads(kept_in(conflict)) == [["step", "0"], ["f.title", "Of two"]]
    assert (now(actor)["title"], now(actor)["description"]) == ("Of one", "Only of two.")


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


def field(answer, path):
    """What stands in a text field of the page."""
    return unescape(re.search(rf'id="f\.{re.escape(path)}" name="[^"]*" value="([^"]*)"', answer.content.decode())[1])


def sides(answer):
    """Both sides of every question, and which of them is picked, as the panel has them."""
    told = answer.content.decode().partition('id="draft-said"')[2].partition("</section>")[0]
    found = re.findall(r'name="c\.([^"]*)" value="(\w+)"( checked)?>.*?mono">(.*?)</span>', told)
    return {(path, side): (unescape(text), bool(picked)) for path, side, picked, text in found}


def test_who_types_on_in_the_field_goes_on_with_their_own_side(browser, actor, conflict, headers):
    """Another step than the draft's newest is not needed for that: the page was drawn anew with the question, and names the newest."""
    assert field(conflict, "title") == "Of two"
    step, answer = 2, conflict
    for text in ("Of two, and", "Of two, and more"):
        answer = sent(browser, step, "two", headers, kept=kept_in(answer), f__title=text, f__example=text)
        step += 1
        assert answer.status_code == 409
        assert (now(actor)["title"], now(actor)["example"]) == ("Of one", text)
        assert field(answer, "title") == text
        assert sides(answer) == {("title", "mine"): (text, True), ("title", "theirs"): ("Of one", False)}
    sent(browser, step, "two", headers, kept=kept_in(answer), do="choose", **{"c.title": "mine"})
    assert now(actor)["title"] == "Of two, and more"


@pytest.mark.parametrize(("side", "stands"), [("mine", "Of two, at last"), ("theirs", "Of one")])
def test_an_answer_is_of_what_stands_in_the_field_by_then(browser, actor, conflict, headers, side, stands):
    chosen = {"f.title": "Of two, at last", "f.example": "Typed.", "c.title": side}
    assert sent(browser, 2, "two", headers, kept=kept_in(conflict), do="choose", **chosen).status_code in (200, 302)
    assert (now(actor)["title"], now(actor)["example"]) == (stands, "Typed.")


def test_what_is_picked_and_not_sent_off_is_no_answer_and_stays_picked(browser, actor, conflict, headers):
    answer = sent(browser, 2, "two", headers, kept=kept_in(conflict), f__title="Of two", **{"c.title": "theirs"})
    assert answer.status_code == 409
    assert sides(answer)["title", "theirs"] == ("Of one", True)
    assert now(actor)["title"] == "Of one"


def test_an_answer_is_of_what_the_question_showed(browser, actor, conflict, headers):
    """The others changed it once more after the question was drawn: nobody has looked at that."""
    sent(browser, 1, "one", headers, f__title="Of one, again")
    answer = sent(browser, 2, "two", headers, kept=kept_in(conflict), do="choose", **{"c.title": "mine"})
    assert answer.status_code == 409
    assert sides(answer)["title", "theirs"][0] == "Of one, again"
    assert now(actor)["title"] == "Of one, again"
    sent(browser, 3, "two", headers, kept=kept_in(answer), do="choose", **{"c.title": "mine"})
    assert now(actor)["title"] == "Of two"


def test_what_was_typed_back_is_no_change_of_ones_own_any_more(browser, actor, conflict, headers):
    answer = sent(browser, 2, "two", headers, kept=kept_in(conflict), f__title="A small fabric")
    assert (answer.status_code, now(actor)["title"]) == (200 if headers else 302, "Of one")


def test_a_second_question_stands_beside_the_first(browser, actor, conflict, headers):
    sent(browser, 2, "one", headers, f__example="Example of one")
    answer = sent(browser, 2, "two", headers, kept=kept_in(conflict), f__title="Of two", f__example="Example of two")
    assert answer.status_code == 409
    assert {path for path, _ in sides(answer)} == {"title", "example"}
    kept = [unescape(one) for one in re.findall(r'name="kept" value="([^"]*)"', answer.content.decode())]
    answer = sent(
        browser, 3, "two", headers, kept=kept, do="choose", f__title="Of two, on", **{"c.title": "mine", "c.example": "theirs"}
    )  # fmt: skip
    assert answer.status_code in (200, 302)
    assert (now(actor)["title"], now(actor)["example"]) == ("Of two, on", "Example of one")


def test_a_side_is_the_same_thing_s_wherever_it_stands_meanwhile(browser, actor, draft, headers):
    """By name: the list before it got shorter, and its fields have another number."""
    changed = {"f.agents.1.instructions": "Of one"}
    sent(browser, 0, "one", headers, **changed)
    answer = sent(browser, 0, "two", headers, **{"f.agents.1.instructions": "Of two"})
    name = now(actor)["agents"][1]["name"]
    sent(browser, 1, "one", headers, do="remove agents.0")
    answer = sent(browser, 1, "two", headers, kept=kept_in(answer), f__title="Beside it")
    assert answer.status_code == 409
    given = {"kept": kept_in(answer), "f.agents.0.instructions": "Of two, and more"}
    answer = sent(browser, 3, "two", headers, **given)
    assert sides(answer)[f"agents.{name}.instructions", "mine"][0] == "Of two, and more"
    assert now(actor)["agents"][0]["instructions"] == "Of one"
    sent(browser, 3, "two", headers, kept=kept_in(answer), do="choose", **{f"c.agents.{name}.instructions": "mine"})
    assert now(actor)["agents"][0]["instructions"] == "Of two, and more"


def test_another_field_within_what_is_asked_is_of_ones_own_side_too(browser, actor, draft, headers):
    """A ladder is asked as a whole: its page shows one's own, and what is changed there meanwhile belongs to it."""
    rung = "decision_table.provider_failure.batch.rungs.0"
    sent(browser, 0, "one", headers, **{f"f.{rung}.times": "4"})
    answer = sent(browser, 0, "two", headers, **{f"f.{rung}.times": "3"})
    assert answer.status_code == 409
    path = "decision_table.provider_failure.batch.rungs"
    more = {f"f.{path}.0.times": "3", f"f.{path}.1.reaction": "surface"}
    answer = sent(browser, 1, "two", headers, kept=kept_in(answer), **more)
    rungs = now(actor)["decision_table"]["provider_failure"]["batch"]["rungs"]
    assert (answer.status_code, rungs[0]["times"], rungs[1]["reaction"]) == (409, 4, "wait_for_breaker")
    sent(browser, 1, "two", headers, kept=kept_in(answer), do="choose", **{f"c.{path}": "mine"})
    rungs = now(actor)["decision_table"]["provider_failure"]["batch"]["rungs"]
    assert (rungs[0]["times"], rungs[1]["reaction"]) == (3, "surface")


def test_a_button_beside_a_field_that_is_asked_of_is_pressed(browser, actor, draft, headers):
    sent(browser, 0, "one", headers, f__title="Of one")
    agents = len(now(actor)["agents"])
    answer = sent(browser, 0, "two", headers, f__title="Of two", do="add agents")
    assert (answer.status_code, len(now(actor)["agents"])) == (409, agents + 1)
    assert json.loads(kept_in(answer)) == [["step", "0"], ["f.title", "Of two"]]


def test_mine_may_be_left_out(browser, actor, conflict, headers):
    answer = sent(browser, 1, "two", headers, kept=kept_in(conflict), do="leave")
    assert (answer.status_code, kept_in(answer)) == (200 if headers else 302, "")
    assert now(actor)["title"] == "Of one"


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
    given["text"] = given["text"].replace("Of two", "Of two, and more")
    answer = browser.post(
        "/fabrics/small/draft?part=yaml", {**given, "step": 1, "kept": kept_in(answer)}, headers=headers
    )
    assert (answer.status_code, now(actor)["title"]) == (409, "Of one")
    assert "title: Of two, and more" in unescape(answer.content.decode()).partition('id="text"')[2]
    chosen = {"step": 1, "page": "two", "part": "yaml", "kept": kept_in(answer), "do": "choose", "c.title": "mine"}
    browser.post("/fabrics/small/draft?part=yaml", chosen, headers=headers)
    assert now(actor)["title"] == "Of two, and more"


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
