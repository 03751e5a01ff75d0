"""One draft in two pages: a page that is older than the draft is refused, shows both values, and keeps what was typed in it."""

from __future__ import annotations

import re
from html import unescape

import pytest

from fabric.selectors.drafts.lookup import draft_get
from fabric.services.drafts import changes as drafts
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.fabric.services.world import SMALL

PAGE = "/fabrics/small/draft?part="
HX = {"HX-Request": "true"}
REFUSAL = "The draft was changed since this page was loaded, so nothing was saved"


@pytest.fixture
def draft(actor, small):
    return drafts.draft_of_fabric(actor=actor, name=small)


def sent(browser, step, page, headers=None, part="basics", **fields):
    given = {
        "step": step,
        "page": page,
        "part": part,
        **{key.replace("__", "."): one for key, one in fields.items()},
    }
    return browser.post(f"{PAGE}{part}", given, headers=headers or {})


def text_of(answer):
    return unescape(answer.content.decode())


def hidden(answer, name):
    """The hidden field of the editor's form."""
    found = re.search(rf'<input type="hidden"[^>]* name="{name}" value="(\d+)"', text_of(answer))
    return found and int(found[1])


def values(answer):
    """Both values of each field that differs, as the page shows them."""
    said = text_of(answer).partition('id="draft-said"')[2].partition("</section>")[0]
    return re.findall(r'<span class="said mono">(.*?)</span>', said, re.DOTALL)


def now(actor):
    return read_yaml(draft_get(actor, "small").text).value


@pytest.fixture(params=[{}, HX], ids=["without a script", "with a script"])
def headers(request):
    return request.param


@pytest.fixture
def stale(browser, draft, headers):
    """Two pages that showed the same; the second one's answer."""
    assert sent(browser, 0, "one", headers, f__title="Of one").status_code in (200, 302)
    answer = sent(browser, 0, "two", headers, f__title="Of two", f__description="Only of two.")
    assert answer.status_code == 409
    return answer


MINE = {"f__title": "Of two", "f__description": "Only of two."}


def test_both_values_are_shown_and_nothing_of_either_is_lost(actor, stale):
    page = text_of(stale)
    assert REFUSAL in page
    assert values(stale) == ["Of two", "Of one", "Only of two.", "not given"]
    assert 'value="Of two"' in page.partition('id="draft-form"')[2]
    assert "Only of two." in page.partition('id="draft-form"')[2]
    assert (hidden(stale, "step"), hidden(stale, "over")) == (0, 1)
    assert (now(actor)["title"], "description" in now(actor)) == ("Of one", False)


def test_what_is_typed_on_is_refused_too_until_its_author_has_chosen(browser, actor, stale, headers):
    answer = sent(browser, 0, "two", headers, f__title="Of two, and more", f__description="Only of two.")
    assert (answer.status_code, values(answer)[:2]) == (409, ["Of two, and more", "Of one"])
    assert now(actor)["title"] == "Of one"


def test_the_author_saves_what_stands_in_the_fields(browser, actor, stale, headers):
    answer = sent(browser, 0, "two", headers, over=1, do="keep", **MINE)
    assert answer.status_code == (200 if headers else 302)
    assert (now(actor)["title"], now(actor)["description"]) == ("Of two", "Only of two.")
    drafts.draft_undo(actor=actor, name="small", step=2)
    assert now(actor)["title"] == "Of one", "it is a step that can be undone"


def test_the_author_leaves_out_what_stands_in_the_fields(browser, actor, stale, headers):
    answer = sent(browser, 0, "two", headers, over=1, do="leave", **MINE)
    assert answer.status_code == (200 if headers else 302)
    assert now(actor)["title"] == "Of one"
    if headers:
        assert 'value="Of one"' in text_of(answer)
        assert "draft-said" not in text_of(answer)


def test_a_choice_is_about_the_values_that_were_shown(browser, actor, stale, headers):
    sent(browser, 1, "one", headers, f__title="Of one, again")
    answer = sent(browser, 0, "two", headers, over=1, do="keep", **MINE)
    assert (answer.status_code, values(answer)[:2]) == (409, ["Of two", "Of one, again"])
    assert (hidden(answer, "over"), now(actor)["title"]) == (2, "Of one, again")
    sent(browser, 0, "two", headers, over=2, do="keep", **MINE)
    assert now(actor)["title"] == "Of two"


def test_a_page_that_changes_another_field_is_refused_too_and_saves_that_field_alone(browser, actor, draft, headers):
    sent(browser, 0, "one", headers, f__title="Of one")
    answer = sent(browser, 0, "two", headers, f__example="More.")
    assert (answer.status_code, values(answer)) == (409, ["More.", "What do the notes say?"])
    sent(browser, 0, "two", headers, over=1, do="keep", f__example="More.", f__title="A small fabric")
    assert (now(actor)["title"], now(actor)["example"]) == ("Of one", "More.")


def test_a_page_without_changes_shows_what_was_saved(browser, actor, draft, headers):
    sent(browser, 0, "one", headers, f__title="Of one")
    answer = sent(browser, 0, "two", headers, f__title="A small fabric")
    assert answer.status_code == (200 if headers else 302)
    assert now(actor)["title"] == "Of one"


def test_a_button_of_a_stale_page_does_nothing(browser, actor, draft, headers):
    sent(browser, 0, "one", headers, f__title="Of one")
    before = now(actor)
    answer = sent(browser, 0, "two", headers, part="agents", do="remove agents.0")
    assert (answer.status_code, now(actor)) == (409, before)
    assert REFUSAL in text_of(answer)


def test_a_field_follows_its_agent_to_where_it_stands_by_now(browser, actor, draft, headers):
    agents = now(actor)["agents"]
    assert len(agents) > 1
    sent(browser, 0, "one", headers, part="agents", do="remove agents.0")
    mine = {"f.agents.1.instructions": "Of two"}
    answer = sent(browser, 0, "two", headers, part="agents", **mine)
    assert (answer.status_code, values(answer)[0]) == (409, "Of two")
    sent(browser, 0, "two", headers, part="agents", over=1, do="keep", **mine)
    assert now(actor)["agents"][0] == {**agents[1], "instructions": "Of two"}


def test_a_field_of_what_is_gone_is_said_and_kept_on_the_page(browser, actor, draft, headers):
    sent(browser, 0, "one", headers, part="agents", do="remove agents.0")
    before, mine = now(actor), {"f.agents.0.instructions": "Of two"}
    assert values(sent(browser, 0, "two", headers, part="agents", **mine)) == ["Of two", "not given"]
    answer = sent(browser, 0, "two", headers, part="agents", over=1, do="keep", **mine)
    assert (answer.status_code, now(actor)) == (422, before)
    assert "agents.0.instructions is not in the draft any more" in text_of(answer).lower()
    assert "Of two" in text_of(answer).partition('id="draft-form"')[2]


def test_the_whole_text_is_refused_and_kept_as_well(browser, actor, draft, headers):
    sent(browser, 0, "one", headers, f__title="Of one")
    text = SMALL.replace("A small fabric", "Of two")
    answer = sent(browser, 0, "two", headers, part="yaml", text=text)
    assert (answer.status_code, now(actor)["title"]) == (409, "Of one")
    assert "title: Of one" in text_of(answer).partition('id="draft-form"')[0]
    assert "title: Of two" in text_of(answer).partition('id="text"')[2]
    sent(browser, 0, "two", headers, part="yaml", text=text, over=1, do="keep")
    assert now(actor)["title"] == "Of two"


def test_fields_stay_on_the_page_while_another_page_has_made_the_text_no_yaml(browser, actor, draft, headers):
    sent(browser, 0, "one", headers, part="yaml", text="name: [")
    answer = sent(browser, 0, "two", headers, f__title="Of two")
    assert (answer.status_code, values(answer)) == (409, ["Of two", "not given"])
    assert 'value="Of two"' in text_of(answer).partition('id="draft-form"')[2]
    answer = sent(browser, 0, "two", headers, over=1, do="keep", f__title="Of two")
    assert answer.status_code == 409
    assert "mend it in the YAML part" in text_of(answer)
    drafts.draft_undo(actor=actor, name="small", step=1)
    sent(browser, 0, "two", headers, f__title="Of two")
    assert now(actor)["title"] == "Of two"


def test_what_was_typed_is_listed_where_the_step_of_the_page_is_not_kept_any_more(browser, actor, draft, monkeypatch):
    monkeypatch.setattr(drafts, "STEPS_MAX", 2)
    for n in range(4):
        sent(browser, n, "one", f__title=f"Of one {n}")
    answer = sent(browser, 0, "two", f__title="Of two")
    assert answer.status_code == 409
    assert "Of two" in text_of(answer).partition("Your text")[2]
    assert now(actor)["title"] == "Of one 3"


@pytest.mark.parametrize("over", ["", "x", "-1", "9" * 20])
def test_what_is_handed_on_may_be_anything(browser, actor, draft, over):
    answer = sent(browser, 0, "two", over=over, do="keep", f__title="Mine")
    assert answer.status_code == 422
    assert now(actor)["title"] == "A small fabric"
