"""The models that a call could have gone to, as the inspector says them."""

from __future__ import annotations

from typing import get_args, get_type_hints

from console.views.inspect_models import RULED_OUT, candidates
from fabric.core.events import Candidate


def test_each_reason_against_a_model_has_its_words():
    assert set(RULED_OUT) == set(get_args(get_type_hints(Candidate)["ruled_out"]))


def test_each_model_says_what_the_call_may_cost_and_why_it_does_not_take_it():
    weighed = {
        "before": "script",
        "usd_micros": 40,
        "candidates": [
            {"model": "mute", "usd_micros": None, "ruled_out": "needs", "trip": None},
            {"model": "spare", "usd_micros": 900, "ruled_out": "guard", "trip": {"message": "more than is left"}},
            {"model": "third", "usd_micros": 50, "ruled_out": "", "trip": None},
        ],
    }
    [section] = candidates(weighed)
    said = [(one.name, one.value, one.more) for one in section.body["rows"]]
    assert said[1:] == [
        ("mute", "no price", RULED_OUT["needs"]),
        ("spare", "$0.0009", "more than is left"),
        ("third", "$0.000050", "takes the call"),
    ]
    assert candidates(None) == []
