"""How fabrics begin in the browser: templates, files, copies; who may; what is said of what cannot be."""

from __future__ import annotations

import html
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from console.pages.drafts.beginnings import facts
from fabric.core.people.actor import Actor
from fabric.models import Draft
from fabric.selectors.drafts.lookup import draft_get
from fabric.services.fabrics.templates import TEMPLATES, template_get
from fabric.services.fabrics.yaml.tree import BYTES_MAX
from tests.fabric.services.world import SMALL
from tests.people import member, signed_in


def text(answer: object) -> str:
    return html.unescape(answer.content.decode())  # type: ignore[attr-defined]


def words(answer: object) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", text(answer)).split())


def errors(answer: object) -> list[str]:
    return [" ".join(one.split()) for one in re.findall(r'class="err">.*?<span>(.*?)</span>', text(answer), re.DOTALL)]


# -- templates ---------------------------------------------------------------------------------------------------------


def test_each_template_says_what_it_has(browser: Client) -> None:
    page = text(browser.get("/fabrics/+new"))
    for name in TEMPLATES:
        one = template_get(name)
        assert f'value="{name}"' in page
        assert one.spec.title in page
        for word, value in facts(one.spec):
            assert f"<dt>{word}</dt><dd>{value}</dd>" in page
    assert "no model is configured here" in page


def test_what_a_template_has_is_read_from_its_fabric() -> None:
    payment = dict(facts(template_get("payment-approval").spec))
    assert payment == {
        "Agents": "clerk, controller",
        "Tiers": "high-stakes regulated",
        "Tools": "read_document, reserve, release, pay",
        "Gates": "guardrails, critic",
        "Changes": "undone when a run fails, a person before each that cannot be undone, four eyes",
        "Cap": "$0.20 a run",
    }
    assert dict(facts(template_get("blank").spec))["Gates"] == "guardrails", "credentials in the outcome"


def test_the_model_of_the_installation_is_said_and_taken(browser: Client, actor: Actor, settings: object) -> None:
    settings.FABRIC_MODEL, settings.FABRIC_MODEL_URL = "smollm2", "http://127.0.0.1:8431/v1"  # type: ignore[attr-defined]
    assert "use smollm2 (FABRIC_MODEL)" in text(browser.get("/fabrics/+new"))
    page = text(browser.post("/fabrics/+new", {"template": "blank"}, follow=True))
    assert "Its agents think with smollm2 (FABRIC_MODEL), which is on this machine" in page
    assert "provider: openai" in draft_get(actor, "blank").text


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_leads_to_its_draft_without_an_error(browser: Client, name: str) -> None:
    answer = browser.post("/fabrics/+new", {"template": name, "name": "mine", "title": "Mine"}, follow=True)
    assert answer.redirect_chain == [("/fabrics/mine/draft", 302)]
    page = text(answer)
    assert "mine is a draft" in page
    if name == "payment-approval":  # A single member approves payments alone.
        assert "1 warning" in page
    else:
        assert "Ready to publish." in page


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({}, 422, "Pick a template."),
        ({"template": "no-such"}, 404, "There is no template 'no-such'; there are: research, "),
        ({"template": "blank", "name": "No Name"}, 422, "'No Name' is no name of a fabric: use lower-case letters"),
        ({"template": "blank", "name": "small"}, 409, "A fabric 'small' is published already: give another name"),
    ],
)
def test_what_cannot_begin_is_said_beside_its_field(
    browser: Client, small: str, sent: dict[str, str], status: int, said: str
) -> None:
    answer = browser.post("/fabrics/+new", {**sent, "title": "Kept <b>"})
    assert answer.status_code == status
    assert any(one.startswith(said) for one in errors(answer))
    assert 'value="Kept &lt;b&gt;"' in answer.content.decode()
    assert not Draft.objects.exists()


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_without_a_fault_leads_to_its_draft(browser: Client, actor: Actor) -> None:
    upload = SimpleUploadedFile("some.yaml", SMALL.encode())
    answer = browser.post("/fabrics/+import", {"file": upload, "source": ""}, follow=True)
    assert answer.redirect_chain == [("/fabrics/small/draft", 302)]
    assert draft_get(actor, "small").text == SMALL


def test_what_is_wrong_in_a_file_is_said_on_its_draft_with_its_line(browser: Client) -> None:
    broken = SMALL.replace("model: script", "model: big")
    page = text(browser.post("/fabrics/+import", {"source": broken, "name": "mine"}, follow=True))
    assert "mine is a draft with 2 errors. They are listed with line numbers." in page
    assert "agents.0.model · line 12" in page.replace("<wbr>", "")
    page = text(browser.post("/fabrics/+import", {"source": "a: [1,\nb", "name": "worse"}, follow=True))
    assert re.search(r"YAML · line \d", page)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.yaml", b"", "There is nothing here: paste a fabric, or pick a file."),
        ("a.yaml", b"name: \xff", "a.yaml is no UTF-8 text (byte 6 is not): save it as UTF-8."),
        ("a.yaml", b"#" * (BYTES_MAX + 1), f"a.yaml has {BYTES_MAX + 1:,} bytes; at most {BYTES_MAX:,} are taken."),
        (
            "7.yaml",
            b"name: mine\na: &b 1\n",
            "The text cannot be read (line 2, column 4: the anchor &b is not read; write the value out), and its file has no name for the fabric: give one.",
        ),
        ("7.yaml", b"x: 1", "Neither the text nor its file has a name for the fabric: give one."),
        ("a.yaml", b"a: \x00", "The text holds NUL characters or broken Unicode: take them out"),
    ],
)
def test_only_size_encoding_and_name_are_refused(browser: Client, name: str, content: bytes, said: str) -> None:
    answer = browser.post("/fabrics/+import", {"file": SimpleUploadedFile(name, content)})
    assert answer.status_code == 422
    assert any(one.startswith(said) for one in errors(answer)), errors(answer)
    assert not Draft.objects.exists()


def test_a_draft_that_there_is_stays_until_its_text_may_be_replaced(browser: Client, actor: Actor) -> None:
    browser.post("/fabrics/+import", {"source": SMALL})
    again = SMALL.replace("Read.", "Read twice.")
    answer = browser.post("/fabrics/+import", {"source": again})
    assert answer.status_code == 409
    assert "(you have one)" in text(answer)
    assert "Read twice." in text(answer)
    assert draft_get(actor, "small").text == SMALL
    page = text(browser.post("/fabrics/+import", {"source": again, "replace": "1"}, follow=True))
    assert "Undo restores the old text" in page
    assert draft_get(actor, "small").text == again


# -- copies, and the fabric's page ------------------------------------------------------------------------------------


def test_a_copy_is_made_from_the_page_of_a_version(browser: Client, actor: Actor, small: str) -> None:
    page = text(browser.get("/fabrics/small/r1"))
    assert 'name="number" value="1"' in page
    assert 'value="small-copy"' in page
    answer = browser.post("/fabrics/small/duplicate", {"to": "other", "number": "1"})
    assert answer.headers["Location"] == "/fabrics/other/draft"
    assert "(copy)" in draft_get(actor, "other").text


@pytest.mark.parametrize(
    ("sent", "status", "said"),
    [
        ({}, 422, "The copy has no name: give it one."),
        ({"to": "small"}, 409, "A fabric 'small' is published already"),
        ({"to": "Nope"}, 422, "'Nope' is no name of a fabric"),
        ({"to": "x", "number": "0"}, 422, "The form was incomplete"),
    ],
)
def test_a_copy_that_cannot_be_made_is_said_on_the_page(
    browser: Client, small: str, sent: dict[str, str], status: int, said: str
) -> None:
    answer = browser.post("/fabrics/small/duplicate", sent)
    assert answer.status_code == status
    assert any(one.startswith(said) for one in errors(answer)), errors(answer)
    assert 'id="duplicate" open' in text(answer)


def test_the_page_says_whose_drafts_there_are(browser: Client, small: str) -> None:
    assert "rafted by" not in words(browser.get("/fabrics/small"))
    browser.post("/fabrics/small/draft/begin")
    browser.post("/fabrics/small/draft", {"step": "0", "part": "basics", "f.title": "Another"})
    ana = signed_in(member("ana", "editor"))
    ana.post("/fabrics/small/draft/begin")
    page = words(browser.get("/fabrics/small"))
    assert "You have a draft of it: 1 change , saved" in page
    assert "Also drafted by ana (" in page
    assert "Continue editing" in page
    page = words(signed_in(member("vera", "viewer")).get("/fabrics/small"))
    assert re.search(r"Drafted by ana \([^)]*\), owner \(", page)
    assert "You have a draft" not in page


def test_who_may_not_edit_is_told_for_whom_it_is(browser: Client, small: str) -> None:
    viewer = signed_in(member("vera", "viewer"))
    for path, button in (("/fabrics/small", "edit"), ("/fabrics/+new", "begin"), ("/fabrics/+import", "read")):
        page = text(viewer.get(path))
        assert re.search(rf'id="{button}" disabled aria-describedby="lacks"', page), path
        assert "This is for" in page
    for path, sent in (("/fabrics/+new", {"template": "blank"}), ("/fabrics/+import", {"source": SMALL})):
        assert viewer.post(path, sent).status_code == 403
    assert viewer.post("/fabrics/small/duplicate", {"to": "x"}).status_code == 403


# -- the sign of life --------------------------------------------------------------------------------------------------


def test_an_open_editor_is_seen_by_others_and_forgotten_when_it_closes(browser: Client, small: str) -> None:
    ana = signed_in(member("ana", "editor"))
    for one in (browser, ana):
        one.post("/fabrics/small/draft/begin")
    assert "is looking at" not in text(ana.post("/fabrics/small/draft/beat", {"part": "limits"}))
    seen = text(browser.post("/fabrics/small/draft/beat", {"part": "yaml"}))
    assert "ana is looking at Budgets and limits" in seen
    assert "ana is looking at Budgets and limits" in text(browser.get("/fabrics/small/draft"))
    assert ana.post("/fabrics/small/draft/beat", {"gone": "1"}).status_code == 204
    assert "is looking at" not in text(browser.post("/fabrics/small/draft/beat", {"part": "yaml"}))


def test_a_sign_of_life_without_a_draft_is_none(browser: Client, small: str) -> None:
    assert browser.post("/fabrics/small/draft/beat", {"part": "yaml"}).status_code == 404
