"""The book and the desk: how a process shares a budget, step by step on a clock that is passed by hand."""

import threading

import pytest

from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.runtime.ports.spending import Budget, TokenAsk, TokensLeft
from fabric.worker.spending.grant_desk import GrantDesk
from fabric.worker.spending.grants import IDLE_S, LIFE_S, OVERDUE_S, GrantBook
from tests.fabric.stores.grant_worlds import FABRIC, reserving, settling
from tests.fabric.worker.spending.scenes import Site


@pytest.fixture
def site():
    return Site(100_000)


def answered(process):
    """Return what the last need came to; each process is asked once."""
    (found,) = process.answers
    process.answers.clear()
    return found


def given(process, amount):
    process.need(amount)
    process.turn()
    assert answered(process) is None


# -- spending ----------------------------------------------------------------------------------------------------------


def test_a_chunk_is_taken_once_and_spent_in_memory(site):
    host = site.process()
    assert host.book.available(FABRIC) == 0
    given(host, 100)
    assert host.book.available(FABRIC) == 400
    assert site.stands == (0, 400, 0)
    host.spend(100, "c1")
    assert host.book.available(FABRIC) == 300
    with pytest.raises(ValueError, match="a reservation of 301 from the grant"):
        host.spend(301, "c2")
    with pytest.raises(ValueError, match="a reservation of -1"):
        host.spend(-1, "c3")
    ((grant, _),) = host.book.chunks(FABRIC)
    together = [reserving(grant, amount, run="r", command="c4", attempt=amount) for amount in (200, 101)]
    with pytest.raises(ValueError, match="a reservation of 101 .*, which has 100"):
        host.book.spend(together)
    assert host.book.available(FABRIC) == 300


def test_what_a_call_did_not_use_is_there_for_the_next(site):
    host = site.process()
    given(host, 100)
    host.write(host.spend(100, "c1"))
    host.settle("c1", 30)
    assert host.book.available(FABRIC) == 370
    host.write(host.spend(100, "c2"))
    host.settle("c2", None)
    assert host.book.available(FABRIC) == 270


def test_a_batch_that_was_not_written_costs_nothing(site):
    host = site.process()
    given(host, 100)
    host.book.unspend([host.spend(100, "c1")])
    assert host.book.available(FABRIC) == 400
    host.book.settle_grants([settling(5, run=host.name, command="c1")])
    assert host.book.available(FABRIC) == 400


def test_the_next_chunk_is_asked_for_when_half_of_the_last_is_used(site):
    host = site.process()
    given(host, 100)
    host.spend(100, "c1")
    host.spend(100, "c2")
    site.turn()
    assert site.stands[1] == 400
    host.spend(50, "c3")
    site.turn()
    assert len(host.book.chunks(FABRIC)) == 2
    assert site.stands[1] > 400


def test_chunks_grow_while_they_do_not_last_and_shrink_again(site):
    host = site.process()
    sizes = []
    for number in range(60):
        if not host.book.available(FABRIC):
            given(host, 100)
            sizes.append(host.book.available(FABRIC))
        host.spend(100, f"c{number}")
    assert sizes[:3] == [400, 800, 1_600]
    site.turn()
    site.pass_time(30)
    given(host, 100)
    assert host.book.chunks(FABRIC)[-1][1] == 400


def test_near_the_cap_it_is_one_reservation_at_a_time_and_none_ahead(site):
    site = Site(1_000)
    host = site.process()
    given(host, 100)
    assert site.stands[1] == 100
    host.spend(100, "c1")
    site.turn()
    assert site.stands[1] == 100


def test_who_waits_together_is_given_one_chunk_and_told_as_many_as_fit(site):
    site = Site(1_000)
    host = site.process()
    for _ in range(3):
        host.need(40)
    host.turn()
    assert (host.answers, site.stands[1]) == ([None], 50)
    host.turn()
    host.turn()
    assert host.answers == [None, None, None]


# -- refusing ----------------------------------------------------------------------------------------------------------


def test_a_refusal_says_where_the_budget_stands_and_a_smaller_need_is_still_met(site):
    site = Site(1_000)
    host = site.process()
    host.need(1_500)
    host.need(600)
    host.turn()
    refused = answered(host)
    assert isinstance(refused, Budget)
    assert (refused.cap, refused.granted) == (1_000, 0)
    host.turn()
    assert answered(host) is None


def test_a_scope_without_a_cap_is_refused(site):
    host = site.process()
    host.need(1, scope="fabric:other")
    host.turn()
    assert answered(host).cap == 0


def test_before_it_refuses_it_takes_back_what_others_do_not_use(site):
    site = Site(1_000)
    idle, host = site.process(), site.process()
    given(idle, 600)
    idle.write(idle.spend(250, "c1"))
    host.need(500)
    host.turn()
    assert host.answers == []
    site.pass_time(IDLE_S)
    site.pass_time(0.5)
    assert answered(host) is None
    assert site.stands == (0, 750, 0)
    assert idle.book.available(FABRIC) == 0
    idle.settle("c1", 100)
    site.turn()
    assert site.stands == (100, 500, 0)


def test_a_chunk_in_use_is_not_given_back_and_the_refusal_follows(site):
    site = Site(1_000)
    busy, host = site.process(), site.process()
    given(busy, 900)
    host.need(500)
    for number in range(20):
        busy.write(busy.spend(10, f"c{number}"))
        site.pass_time(0.3)
    assert isinstance(answered(host), Budget)
    assert busy.book.available(FABRIC) == 700


def test_what_others_have_reserved_is_not_waited_for(site):
    site = Site(1_000)
    other, host = site.process(), site.process()
    given(other, 900)
    other.write(other.spend(900, "c1"))
    host.need(500)
    host.turn()
    assert isinstance(answered(host), Budget)


def test_before_it_refuses_it_reaps_the_dead(site):
    site = Site(1_000)
    other, host = site.process(), site.process()
    given(other, 900)
    other.write(other.spend(300, "c1"))
    site.dead.add(other.name)
    host.need(700)
    host.turn()
    assert answered(host) is None
    assert site.stands == (300, 700, 0)


def test_its_own_rests_are_given_back_with_the_ask(site):
    site = Site(1_000)
    host = site.process()
    given(host, 600)
    host.write(host.spend(400, "c1"))
    given(host, 600)
    assert site.stands == (0, 1_000, 0)
    host.settle("c1", 100)
    host.turn()
    assert site.stands == (100, 600, 0)


# -- ending ------------------------------------------------------------------------------------------------------------


def test_a_chunk_over_its_time_is_spent_from_no_more_and_closed_when_it_is_settled(site):
    host = site.process()
    given(host, 100)
    host.write(host.spend(100, "c1"))
    site.pass_time(LIFE_S)
    site.turn()
    assert host.book.available(FABRIC) == 0
    assert site.stands == (0, 400, 0)
    host.settle("c1", 60)
    site.turn()
    assert site.stands == (60, 0, 0)
    assert not host.book.holds_any()


def test_a_chunk_that_is_overdue_is_closed_whatever_the_book_believes(site):
    host = site.process()
    given(host, 100)
    host.spend(100, "never-written")
    host.write(host.spend(50, "c2"))
    site.pass_time(OVERDUE_S)
    site.turn()
    assert site.stands == (0, 400, 0)
    assert host.book._held == {}
    assert host.write(reserving(next(iter(site.store._grants)), 1)) is BatchFate.GRANT_GONE


def test_who_ends_gives_back_what_is_not_open(site):
    host = site.process()
    given(host, 100)
    host.write(host.spend(100, "c1"))
    host.settle("c1", 60)
    host.book.end()
    host.turn()
    assert site.stands == (60, 0, 0)


def test_a_grant_that_is_gone_is_forgotten_with_its_reservations(site):
    host = site.process()
    given(host, 100)
    one = host.spend(100, "c1")
    site.dead.add(host.name)
    site.store.reap()
    assert host.write(one) is BatchFate.GRANT_GONE
    assert (host.book.available(FABRIC), host.book.holds_any()) == (0, False)


def test_a_lost_lease_ends_everything_and_the_next_life_takes_anew(site):
    host = site.process()
    given(host, 100)
    host.spend(100, "c1")
    site.dead.add(host.name)
    host.book.forget_all()
    host.name = "host-1-2"
    given(host, 100)
    host.write(host.spend(100, "c2"))
    site.store.reap()
    assert [one.usd_micros for one in site.store.list_reservations(host.book.chunks(FABRIC)[0][0])] == [100]


# -- the desk ----------------------------------------------------------------------------------------------------------


class Failing:
    """The memory store, away for a few calls: before or after it did what it was asked."""

    def __init__(self, real, *failures):
        self._real, self._failures, self.calls = real, list(failures), []

    def __getattr__(self, name):
        call = getattr(self._real, name)

        def tried(*given, **named):
            self.calls.append(name)
            failure = self._failures.pop(0) if self._failures else ""
            if failure == "before":
                raise StoreUnavailable("away")
            found = call(*given, **named)
            if failure == "after":
                raise StoreUnavailable("away", unknown=True)
            if failure == "odd":
                raise RuntimeError("unforeseen")
            return found

        return tried


@pytest.mark.parametrize("failure", ["before", "after", "odd"])
def test_a_question_is_asked_until_it_is_answered_and_granted_once(site, failure):
    host = site.process()
    host.desk._grants = Failing(site.store, failure, failure)
    host.need(100)
    for _ in range(8):
        site.pass_time(1)
    assert answered(host) is None
    assert host.desk._grants.calls.count("take") == 3
    assert site.stands == (0, 400, 0)


def test_a_retry_token_whose_answer_was_lost_costs_another_but_what_was_earned_is_credited_once(site):
    host = site.process()
    found = []
    host.desk._buckets = Failing(site.guards, "after")
    host.desk.retry([TokenAsk(FABRIC, 10_000, 0)], first_in_stage=False, answered=found.append)
    site.pass_time(1)
    site.pass_time(1)
    assert found == [TokensLeft(True, {FABRIC: 8_000})]
    host.desk._buckets = Failing(site.guards, "after")
    host.desk.earn([TokenAsk(FABRIC, 10_000, 300)])
    site.pass_time(1)
    site.pass_time(1)
    assert site.guards.retry([TokenAsk(FABRIC, 10_000)], first_in_stage=False).levels == {FABRIC: 7_300}


def test_a_desk_of_its_own_thread_answers_on_the_loop_and_gives_back_when_it_stops(site):
    posted, told = threading.Semaphore(0), []

    def post(call):
        told.append(call)
        posted.release()

    desk = GrantDesk(site.store, site.guards, lambda: "host-1", post)
    book = GrantBook(desk, site.now)
    desk.start(book)
    answers = []
    book.need(FABRIC, 100, answers.append)
    assert posted.acquire(timeout=10)
    told.pop(0)()
    assert answers == [None]
    book.end()
    desk.stop()
    assert not desk._thread.alive
    assert site.stands == (0, 0, 0)


def test_a_process_that_holds_nothing_asks_nothing_but_for_the_dead(site):
    host = site.process()
    host.desk._grants = Failing(site.store)
    for _ in range(100):
        site.pass_time(0.25)
    assert host.desk._grants.calls == ["reap", "reap"]


def test_an_ask_that_is_answered_with_a_grant_of_another_name_is_refused_when_it_is_spent(site):
    """The lease was lost between the grant and its use."""
    host = site.process()
    host.need(100)
    host.desk.turn()
    host.book.forget_all()
    site.dead.add(host.name)
    site.store.reap()
    host.turn()
    assert answered(host) is None
    assert host.write(host.spend(100, "c1")) is BatchFate.GRANT_GONE
    assert host.book.available(FABRIC) == 0
