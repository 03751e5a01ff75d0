"""A broker that is away must not delay all threads."""

import logging
import threading

from fabric.worker.nudges.broker import SAME_S, SKIP_S, BrokerNudge, RecentNudges

WAIT_S = 20


class Heard:
    """A local nudge that says what it heard."""

    def __init__(self):
        self.woken, self.seqs = [], []

    def wake(self, run_id):
        self.woken.append(run_id)

    def announce(self, run_seqs):
        self.seqs.append(dict(run_seqs))


class Broker:
    """Takes messages, or does not."""

    def __init__(self):
        self.away = False
        self.asked, self.taken = [], []

    def send(self, run_id):
        self.asked.append(run_id)
        if self.away:
            raise ConnectionRefusedError("no one listens")
        self.taken.append(run_id)


class Hand:
    def __init__(self):
        self.s = 100.0

    def __call__(self):
        return self.s


def scene():
    local, broker, hand = Heard(), Broker(), Hand()
    return BrokerNudge(local, broker.send, hand), local, broker, hand


def test_every_wake_up_goes_both_ways():
    nudge, local, broker, _ = scene()
    for run_id in ("a", "b"):
        nudge.wake(run_id)
    nudge.announce({"a": 3})
    assert local.woken == broker.taken == ["a", "b"]
    assert local.seqs == [{"a": 3}]


def test_a_broker_that_failed_is_left_alone_for_a_while_and_the_local_nudge_is_not():
    nudge, local, broker, hand = scene()
    broker.away = True
    for run_id in ("a", "b", "c"):
        nudge.wake(run_id)
    assert broker.asked == ["a"]
    assert local.woken == ["a", "b", "c"]
    hand.s += SKIP_S - 0.1
    nudge.wake("d")
    assert broker.asked == ["a"]
    hand.s += 0.1
    for run_id in ("e", "f"):
        nudge.wake(run_id)
    assert broker.asked == ["a", "e"]  # Once more, and left alone again.


def test_it_is_used_again_as_soon_as_it_took_one():
    nudge, _, broker, hand = scene()
    broker.away = True
    nudge.wake("a")
    broker.away = False
    hand.s += SKIP_S
    for run_id in ("b", "c"):
        nudge.wake(run_id)
    assert broker.taken == ["b", "c"]


def test_while_one_caller_tries_again_the_others_do_not_wait_with_it():
    local, hand = Heard(), Hand()
    trying, go_on, asked = threading.Event(), threading.Event(), []

    def send(run_id):
        asked.append(run_id)
        if run_id != "first":
            trying.set()
            assert go_on.wait(WAIT_S)
        raise ConnectionRefusedError("no one listens")

    nudge = BrokerNudge(local, send, hand)
    nudge.wake("first")
    hand.s += SKIP_S
    waits = threading.Thread(target=nudge.wake, args=("waits",))
    waits.start()
    assert trying.wait(WAIT_S)
    nudge.wake("meanwhile")  # Comes back although the broker does not answer.
    go_on.set()
    waits.join(WAIT_S)
    assert asked == ["first", "waits"]
    assert local.woken == ["first", "waits", "meanwhile"]


def test_it_is_said_once_how_runs_are_found_now(caplog):
    nudge, _, broker, hand = scene()
    broker.away = True
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            nudge.wake("a")
            hand.s += SKIP_S
    assert [record.getMessage() for record in caplog.records] == [
        "the broker does not take wake-ups, runs are found by looking every few seconds: no one listens"
    ]


def test_a_message_says_nothing_new_once_and_soon_after_its_nudge_was_heard():
    hand = Hand()
    lately = RecentNudges(hand)
    assert not lately.knew("a")  # No nudge comes through: each message counts.
    lately.record_nudges(["a", "b", "c"])
    assert [lately.knew("a"), lately.knew("a")] == [True, False]  # The second is about something else.
    hand.s += SAME_S
    assert lately.knew("b")
    hand.s += 0.1
    assert not lately.knew("c")


def test_what_was_heard_is_not_kept_where_another_worker_gets_the_message():
    hand = Hand()
    lately = RecentNudges(hand)
    lately.record_nudges(["a", "b"])
    hand.s += SAME_S / 2
    lately.record_nudges(["a"])
    hand.s += SAME_S / 2 + 0.1
    lately.record_nudges(["c"])
    assert list(lately._at) == ["a", "c"]  # Heard again, it is younger.
