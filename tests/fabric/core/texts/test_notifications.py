"""Notifications as tables: every state and happening, every status, every event; and how long is waited between attempts."""

from fabric.core.events.envelope import KINDS
from fabric.core.texts.notifications import (
    AGAIN,
    CALLING,
    CAP_S,
    CHANGES,
    COMMENTED,
    ENDS,
    EVENTS,
    MAILED,
    TRANSITIONS,
    Channel,
    NotificationHappening,
    NotificationKind,
    NotificationState,
    Target,
    build_key,
    delay_s,
    key_of_change,
    read_path,
    rfc3339,
    verdict,
)
from fabric.core.values.flow import TERMINAL

HOOK = Target(channel=Channel.WEBHOOK, address="https://hooks.example.org:8443/services/T0/s3cret?token=abc")


def test_the_transitions_are_total():
    assert set(TRANSITIONS) == {(state, happened) for state in NotificationState for happened in NotificationHappening}


def test_what_was_sent_or_is_not_needed_cannot_be_asked_for_again_and_nothing_leaves_sent():
    refused = {
        (NotificationState.SENT, NotificationHappening.ASKED),
        (NotificationState.SKIPPED, NotificationHappening.ASKED),
    }
    assert {pair for pair, after in TRANSITIONS.items() if after is None} == refused
    assert {TRANSITIONS[NotificationState.SENT, happened] for happened in NotificationHappening} == {
        NotificationState.SENT,
        None,
    }


def test_what_is_delivered_is_sent_wherever_it_stood():
    assert {TRANSITIONS[state, NotificationHappening.DELIVERED] for state in NotificationState} == {
        NotificationState.SENT
    }


def test_only_what_waits_is_skipped_and_only_a_delivery_leads_away_from_there():
    assert {state for state in NotificationState if TRANSITIONS[state, NotificationHappening.ANSWERED] is NotificationState.SKIPPED} == {
        NotificationState.WAITING, NotificationState.SKIPPED
    }  # fmt: skip
    assert {TRANSITIONS[NotificationState.SKIPPED, one] for one in NotificationHappening} == {
        NotificationState.SKIPPED,
        NotificationState.SENT,
        None,
    }


def test_everything_that_is_told_has_an_event_that_there_is_or_is_of_a_change():
    of_changes = {told for told in CHANGES.values() if told is not None}
    of_events = [told for several in EVENTS.values() for told in several]
    assert sorted([*of_events, *of_changes, *set(ENDS.values()), *COMMENTED]) == sorted(NotificationKind)
    assert set(ENDS) == TERMINAL
    assert set(EVENTS) <= set(KINDS)
    assert CALLING < MAILED < set(EVENTS)


def test_every_status_says_something():
    for status in range(100, 600):
        said = verdict(status)
        if 200 <= status < 300:
            assert said is NotificationHappening.DELIVERED, status
        elif status in AGAIN or status >= 500:
            assert said is NotificationHappening.FAILED, status
        else:
            assert said is NotificationHappening.REFUSED, status


def test_a_key_is_that_of_its_event_and_target():
    keys = {build_key(run, seq, target) for run in ("a", "b") for seq in (1, 2) for target in ("x", "y")}
    keys |= {key_of_change(one, state, target) for one in ("a", "b") for state in CHANGES for target in ("x", "y")}
    assert len(keys) == 8 + 4 * len(CHANGES)
    assert build_key("a", 1, "x") == build_key("a", 1, "x")


def test_waits_grow_up_to_the_cap_and_are_not_shorter_than_what_was_asked_for():
    for failures in range(1, 40):
        bound = min(CAP_S, 2.0 ** (failures - 1))
        drawn = [delay_s(f"key {n}", failures) for n in range(200)]
        assert all(0 <= delay <= bound for delay in drawn)
        assert max(drawn) > 0.9 * bound, "full jitter reaches up to the bound"
        assert failures > 12 or min(drawn) < 0.1 * bound, "and down to nothing, while it is not the cap that bounds it"
        assert delay_s("key", failures, 86_400.0) == 86_400.0
    assert delay_s("key", 12, 0.001) > 0.001


def test_an_address_is_named_by_its_host_alone_and_known_by_all_of_it():
    assert HOOK.public_address == "https://hooks.example.org:8443"
    other = Target(channel=Channel.WEBHOOK, address=HOOK.address + "d")
    assert len({HOOK.id, other.id, Target(channel=Channel.WEBHOOK, address=HOOK.address, workspace_id="w").id}) == 3
    assert Target(channel=Channel.EMAIL, address="ops@example.org").public_address == "ops@example.org"


def test_where_it_is_looked_at():
    assert read_path({"run_id": "r-1", "review_id": ""}) == "/runs/r-1"
    assert read_path({"run_id": "r-1", "review_id": "e-1"}) == "/reviews/e-1"
    assert read_path({"change_id": "c-1", "fabric": "small"}) == "/fabrics/small/requests/c-1"
    assert rfc3339(1_795_000_000_000_042) == "2026-11-18T11:06:40.000042Z"
