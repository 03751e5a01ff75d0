"""Pages and programs show an event's content with its credentials masked, and everything else as it is."""

from __future__ import annotations

import json

import pytest

from fabric.selectors.contents import given_content, mask_content, read_content, show_sentences

KEY = "AKIA" + "QZ7T" + "M2XWPL4RD6VB"


@pytest.mark.parametrize(
    ("content", "masked"),
    [
        (f"The key is {KEY}.", "The key is [credentials.aws_access_key: AKIA…, 20 characters]."),
        ({"a": [1, {"b": f"{KEY} and {KEY}"}]}, None),
        ({KEY: 1}, None),
        ({"password": "hunter2-is-long-enough-9"}, None),
    ],
)
def test_credentials_are_masked_wherever_they_stand(content, masked):
    found = mask_content(content)
    assert KEY not in json.dumps(found)
    assert "hunter2-is-long-enough-9" not in json.dumps(found)
    assert "credentials." in json.dumps(found)
    assert masked is None or found == masked


@pytest.mark.parametrize("content", ["Nothing to hide.", 7, None, True, [], {"a": {"b": ["c", 1.5]}}])
def test_anything_else_stands_as_it_is(content):
    assert mask_content(content) == content


def test_what_goes_on_working_with_it_gets_the_bytes():
    raw = json.dumps({"text": KEY}).encode()
    assert given_content(raw) == {"text": KEY}
    assert read_content(raw) != {"text": KEY}
    assert read_content(b"{damaged") is given_content(None) is None


def test_sentences_of_a_fact_are_masked_and_its_keys_are_not():
    fact = {"key": KEY, "cause": {"message": f"asked for pay({KEY})"}, "problems": [{"reason": KEY}]}
    masked = show_sentences(fact)
    assert masked["key"] == KEY
    assert KEY not in json.dumps([masked["cause"], masked["problems"]])


@pytest.mark.parametrize("name", ["problems", "errors", "close_reason", "ends", "usage_problem", "signature"])
def test_each_field_that_holds_sentences_is_masked_as_one_or_as_several(name):
    fact = {"checks": [{name: [f"{KEY} is too short"]}], "details": {name: f"{KEY} is too short"}}
    assert KEY not in json.dumps(show_sentences(fact))
