"""Writing a context variable on a run's page, without a script: what is taken, what is refused, and for whom."""

from __future__ import annotations

from html import unescape

import pytest

from fabric.composition import engine as wiring
from fabric.management.run_follower import Following
from fabric.models import AuditLine, Inbox
from fabric.selectors.runs.lookup import run_events
from fabric.services.runs.start import run_start
from tests.fabric.services.world import HeardNudge, ran
from tests.people import member, signed_in


def started(actor, fabric):
    return run_start(store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=fabric, text="What is owed?").run_id


@pytest.fixture
def run_id(actor, talking):
    """A run that no worker has claimed, whose workers will take turns."""
    return started(actor, talking)


def page_of(browser, address):
    return unescape(browser.get(address).content.decode())


def sent(run_id):
    return Inbox.objects.filter(run_id=run_id, input_id__startswith="context:").count()


@pytest.mark.parametrize(
    ("value", "stands"),
    [
        ("true", True),
        ("5", 5),
        ("Owed: 5", "Owed: 5"),
        ('{"a": [1]}', {"a": [1]}),
        ('""', ""),
        ("  two words ", "  two words "),
        ("[" * 5_000, "[" * 5_000),  # Too deep to be read as JSON, and still a text.
    ],
)
def test_what_is_written_stands_in_the_conversation(browser, actor, run_id, value, stands):
    assert f'action="/runs/{run_id}/context"' in page_of(browser, f"/runs/{run_id}")
    answer = browser.post(f"/runs/{run_id}/context", {"name": " flag ", "value": value}, follow=True)
    assert "flag is on its way: it is written once the turn in flight is over." in unescape(answer.content.decode())
    Following(actor, run_id).to_rest()
    (chosen,) = [event for event in run_events(actor, run_id) if event.kind == "speaker_chosen"][:1]
    assert chosen.content["context"]["flag"] == stands
    assert AuditLine.objects.filter(kind="context_sent").count() == 1


def test_one_is_deleted_by_its_tick(browser, actor, run_id):
    answer = browser.post(f"/runs/{run_id}/context", {"name": "old", "delete": "1"})
    assert (answer.status_code, answer["Location"]) == (302, f"/runs/{run_id}"), "to where the message stands"
    assert "old is on its way: it is deleted once the turn" in page_of(browser, f"/runs/{run_id}")
    Following(actor, run_id).to_rest()
    (written,) = [event for event in run_events(actor, run_id) if event.kind == "context_written"]
    assert written.content["delete"] == ["old"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"value": "1"}, "Name the variable."),
        ({"name": "flag"}, "Give a value"),
        ({"name": "flag", "value": "1", "delete": "1"}, "Leave the value empty to delete the variable"),
        ({"name": "outcome", "value": "1"}, "'outcome' is written by the engine after each turn; take another name."),
        (
            {"name": "flag", "value": "[" * 70 + "]" * 70},
            "What is written is refused: the value is nested deeper than 64",
        ),
        ({"name": "n" * 201, "value": "1"}, "has 1 to 200 characters"),
        ({"name": "flag", "value": "x" * 100_001}, "more than 100,000 bytes"),
    ],
)
def test_what_cannot_be_written_is_one_sentence_and_what_was_typed_is_kept(browser, run_id, given, said):
    refused = browser.post(f"/runs/{run_id}/context", given)
    page = unescape(refused.content.decode())
    assert refused.status_code in (413, 422)
    assert said in page
    assert str(given.get("name", ""))[:50] in page
    assert 'aria-invalid="true"' in page
    assert sent(run_id) == 0


def test_a_value_that_is_refused_stands_in_the_form_again_and_so_does_the_tick(browser, run_id):
    refused = browser.post(f"/runs/{run_id}/context", {"name": "flag", "value": "Owed: 5", "delete": "1"})
    page = unescape(refused.content.decode())
    assert 'name="name" maxlength="200" required autocomplete="off" value="flag"' in page
    assert ">Owed: 5</textarea>" in page
    assert '<input type="checkbox" name="delete" value="1" checked>' in page


def test_its_own_page_has_the_form_where_a_variable_would_be_read_and_says_why_elsewhere(
    browser, actor, run_id, small, talking
):
    def page(of):
        found = page_of(browser, f"/runs/{of}/context")
        return 'id="context"' in found, "has no conversation" in found, "This run has ended" in found

    assert page(run_id) == (True, False, False)
    assert page(started(actor, small)) == (False, True, False)
    assert page(ran(actor, talking).id) == (False, False, True)


def test_it_is_for_members_who_may_control_runs(run_id):
    viewer = signed_in(member("looks-on", "viewer"))
    assert "/context" not in page_of(viewer, f"/runs/{run_id}")
    assert 'id="context"' not in page_of(viewer, f"/runs/{run_id}/context")
    refused = viewer.post(f"/runs/{run_id}/context", {"name": "flag", "value": "1"})
    assert (refused.status_code, sent(run_id)) == (403, 0)


def test_a_run_without_a_conversation_or_that_has_ended_takes_none(browser, actor, small, talking):
    without = started(actor, small)
    assert "/context" not in page_of(browser, f"/runs/{without}")
    refused = browser.post(f"/runs/{without}/context", {"name": "k", "value": "1"})
    assert (refused.status_code, "has no conversation" in refused.content.decode()) == (409, True)
    ended = ran(actor, talking)
    assert "/context" not in page_of(browser, f"/runs/{ended.id}")
    late = browser.post(f"/runs/{ended.id}/context", {"name": "k", "value": "1"})
    assert (late.status_code, "has already ended" in unescape(late.content.decode())) == (409, True)
