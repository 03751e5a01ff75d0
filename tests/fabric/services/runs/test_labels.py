"""Labels of runs: what is taken, who may change them, what the audit stream keeps, and which runs inherit them."""

from __future__ import annotations

import json

import pytest

from fabric.core.values.labels import KEY_CHARS_MAX, LABELS_MAX, VALUE_CHARS_MAX
from fabric.models import AuditLine, Run, RunLabel
from fabric.selectors.runs.lookup import run_get, runs_list
from fabric.services.errors import Refused
from fabric.services.runs.forks import run_fork
from fabric.services.runs.labels import run_label
from fabric.services.runs.start import run_start
from tests.fabric.services.world import ran
from tests.people import fresh, member

MANY = {f"k{n}": "v" for n in range(LABELS_MAX)}


@pytest.fixture
def start(store, nudge, actor, small):
    def started(labels, **more):
        asked = {"store": store, "nudge": nudge, "actor": actor, "fabric": small, "text": "What?", "labels": labels}
        return run_start(**asked | more).run_id

    return started


def lines():
    found = AuditLine.objects.filter(kind="run_labelled").order_by("at").values_list("actor", "subject", "body")
    return [
        (name, subject, {key: json.loads(bytes(body))[key] for key in ("before", "after")})
        for name, subject, body in found
    ]


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"team": "ops"},
        {"a.b-c_9": " New York ", "team": "x=y: é"},
        {"k" * KEY_CHARS_MAX: "v" * VALUE_CHARS_MAX},
        MANY,
    ],
)
def test_a_run_has_the_labels_that_it_was_started_with(start, actor, labels):
    run_id = start(labels)
    held = {key: value.strip() for key, value in labels.items()}
    assert run_get(actor, run_id).labels == held
    assert [view.labels for view in runs_list(actor)] == [held]


BAD = [
    ({"Team": "ops"}, "the label key 'Team' is not taken; use lower-case letters, digits, -, _ and ."),
    ({"": "ops"}, "a label has no key; write KEY=VALUE, such as team=ops"),
    ({"k" * 64: "v"}, "has 64 characters; at most 63 are taken; use a shorter key"),
    ({"team": " "}, "label team has no value; write team=VALUE, or leave the label out"),
    ({"team": "v" * 129}, "the value of label team has 129 characters; at most 128 are taken; use a shorter value"),
    ({"team": "a\nb"}, "the value of label team has a line end"),
    ({"team": 'a"b'}, 'the value of label team has a line end, another control character or a "'),
    (MANY | {"more": "v"}, "the run would have 17 labels; at most 16 are taken; leave some out"),
    ({"key": "AKIA" + "QZ7TM2XWPL4RD6VB"}, "the value of label key looks like a credential"),
]


@pytest.mark.parametrize(("labels", "said"), BAD)
def test_a_label_that_is_not_taken_is_one_sentence(start, actor, labels, said):
    with pytest.raises(Refused) as caught:
        start(labels)
    assert (caught.value.code, caught.value.field) == ("invalid", "labels")
    assert said in caught.value.message
    assert not Run.objects.exists()
    run_id = start({})
    with pytest.raises(Refused, match="label"):
        run_label(actor=actor, run_id=run_id, set=labels)
    assert not RunLabel.objects.exists()


def test_a_start_key_is_used_once_for_each_set_of_labels(start):
    first = start({"team": "ops"}, start_key="k")
    assert start({"team": "ops"}, start_key="k") == first
    for other in ({"team": "it"}, {}):
        with pytest.raises(Refused, match="was used for another request"):
            start(other, start_key="k")


def test_a_change_is_recorded_with_the_labels_before_and_after(start, actor):
    run_id = start({"team": "ops", "site": "Rome"})
    assert run_label(actor=actor, run_id=run_id, set={"team": "it", "new": "1"}, delete=["site", "none"]) == {
        "new": "1",
        "team": "it",
    }
    assert run_get(actor, run_id).labels == {"new": "1", "team": "it"}
    assert lines() == [
        ("owner", run_id, {"before": {"site": "Rome", "team": "ops"}, "after": {"new": "1", "team": "it"}})
    ]
    run_label(actor=actor, run_id=run_id, set={"team": "it"}, delete=["none"])
    assert len(lines()) == 1, "nothing changed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"set": {}}, "no label is named"),
        ({"set": {}, "delete": ["Team"]}, "the label key 'Team' is not taken"),
        ({"set": {"a": "1"}, "delete": ["a"]}, "label a is both set and removed; leave one out"),
        ({"set": {f"m{n}": "v" for n in range(16)}}, "the run would have 17 labels"),
    ],
)
def test_a_change_that_cannot_be_made_changes_nothing(start, actor, change, said):
    run_id = start({"team": "ops"})
    with pytest.raises(Refused, match=said):
        run_label(actor=actor, run_id=run_id, **change)
    assert run_get(actor, run_id).labels == {"team": "ops"}
    assert lines() == []


def test_they_are_changed_by_who_may_start_runs_of_the_fabric(start, actor):
    run_id = start({})
    with pytest.raises(Refused) as caught:
        run_label(actor=fresh(member("vera", "viewer")), run_id=run_id, set={"team": "ops"})
    assert caught.value.code == "forbidden"
    assert "vera may not label runs" in caught.value.message
    assert run_label(actor=fresh(member("olga", "operator@small")), run_id=run_id, set={"team": "ops"}) == {
        "team": "ops"
    }


def test_runs_of_another_workspace_are_not_there(start, stranger):
    with pytest.raises(Refused) as caught:
        run_label(actor=stranger, run_id=start({}), set={"team": "ops"})
    assert caught.value.code == "not_found"


def test_a_child_run_has_its_roots_labels_and_none_of_its_own(start, actor):
    root, child = start({"team": "ops"}), start({})
    Run.objects.filter(id=child).update(parent_run_id=root, root_run_id=root)
    assert run_get(actor, child).labels == {"team": "ops"}
    with pytest.raises(Refused, match=f"change those of run {root}"):
        run_label(actor=actor, run_id=child, set={"team": "it"})


def test_a_fork_has_the_labels_of_its_origin(store, nudge, actor, small):
    origin = ran(actor, small)
    run_label(actor=actor, run_id=origin.id, set={"team": "ops"})
    fork = run_fork(store=store, nudge=nudge, actor=actor, run_id=origin.id, seq=1)
    run_label(actor=actor, run_id=origin.id, set={"team": "it"})
    assert run_get(actor, fork.run_id).labels == {"team": "ops"}, "as they were when it was forked"
