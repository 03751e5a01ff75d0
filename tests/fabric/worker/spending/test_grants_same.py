"""The SQL stores do what the memory store does, call by call, whatever is called; so does the arithmetic that PostgreSQL has in its statements."""

from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric.runtime.ports.spending import Budget, Entries, SettledBy
from tests.fabric.stores.grant_worlds import SharedWorld, reserving, settling
from tests.fabric.stores.journal_worlds import MemoryWorld, PostgresqlWorld, SqliteWorld

HOSTS, SCOPES = ("host-1", "host-2"), ("fabric:one", "workspace:one")
host, scope = st.sampled_from(HOSTS), st.sampled_from(SCOPES)
amount, number = st.integers(1, 400), st.integers(0, 9)
grants = st.lists(number.map("grant-{}".format), min_size=1, max_size=3, unique=True)
call = st.tuples(number, st.integers(1, 2))
reserved = st.tuples(number, amount)
Step = tuple[str, Any]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("cap"), st.tuples(scope, st.integers(0, 3_000))),
        st.tuples(st.just("take"), st.tuples(host, scope, number, amount, st.integers(1, 2_000))),
        st.tuples(st.just("take"), st.tuples(host, scope, number, amount, st.integers(1, 2_000))),
        st.tuples(st.just("keep"), st.tuples(host, grants, st.integers(-1, 400))),
        st.tuples(st.just("close"), st.tuples(host, grants)),
        st.tuples(st.just("reclaim"), st.tuples(host, scope)),
        st.tuples(st.just("write"), st.tuples(call, st.lists(reserved, max_size=2), st.none() | st.integers(0, 500))),
        st.tuples(st.just("write"), st.tuples(call, st.lists(reserved, max_size=2), st.none() | st.integers(0, 500))),
        st.tuples(st.just("dies"), host),
        st.tuples(st.just("reap"), st.none()),
        st.tuples(st.just("pass"), st.sampled_from([1, 299, 3_600, 3_900])),
    ),
    min_size=5,
    max_size=40,
)


def entries(made: Any) -> Entries:
    (command, attempt), reservations, settled = made
    named = {"run": f"run-{command}", "command": f"call-{command}", "attempt": attempt}
    once = {f"grant-{n}": worst for n, worst in reservations}
    return Entries(
        run_id=f"run-{command}",
        reserved=tuple(reserving(grant, worst, **named) for grant, worst in once.items()),
        settled=() if once and settled is None else (settling(settled, reason=SettledBy.ANSWERED, **named),),
    )


class Calls:
    """One store's side: each step's answer, and all that can be seen afterwards."""

    def __init__(self, world: SharedWorld, prefix: str) -> None:
        self.world, self.prefix = world, prefix
        world.live(*(prefix + name for name in HOSTS))
        for name, hourly in zip(SCOPES, (True, False), strict=True):
            self.store.set_cap(prefix + name, 2_000, workspace_id="workspace-1", hourly=hourly)

    @property
    def store(self) -> Any:
        return self.world.grants

    def do(self, step: Step) -> Any:
        what, given_ = step
        return getattr(self, f"do_{what}")(given_)

    def do_cap(self, given_: Any) -> Any:
        return self.plain(self.store.set_cap(self.prefix + given_[0], given_[1], workspace_id="workspace-1"))

    def do_take(self, given_: Any) -> Any:
        name, scope_, n, enough, chunk = given_
        try:
            found = self.store.take(
                self.prefix + name, self.prefix + scope_, grant_id=f"{self.prefix}grant-{n}", enough=enough, chunk=chunk
            )
        except Exception as error:  # noqa: BLE001 - the kind is compared
            return type(error).__name__
        return self.plain(found) if isinstance(found, Budget) else found.amount

    def do_keep(self, given_: Any) -> None:
        self.store.keep(self.prefix + given_[0], {self.prefix + one: given_[2] for one in given_[1]})

    def do_close(self, given_: Any) -> Any:
        closed = self.store.close(self.prefix + given_[0], [self.prefix + one for one in given_[1]])
        return [one.removeprefix(self.prefix) for one in closed]

    def do_reclaim(self, given_: Any) -> Any:
        return self.store.reclaim(self.prefix + given_[0], self.prefix + given_[1])

    def do_write(self, given_: Any) -> Any:
        made = entries(given_)
        run = self.prefix + made.run_id
        return self.store.reserve(
            [
                Entries(
                    run_id=run,
                    reserved=tuple(
                        reserving(
                            self.prefix + one.grant_id,
                            one.usd_micros,
                            run=run,
                            command=one.command_id,
                            attempt=one.attempt,
                        )
                        for one in made.reserved
                    ),
                    settled=tuple(
                        settling(one.usd_micros, run=run, command=one.command_id, attempt=one.attempt)
                        for one in made.settled
                    ),
                )
            ]
        )

    def do_dies(self, name: str) -> None:
        self.world.dies(self.prefix + name)

    def do_reap(self, _: None) -> Any:
        return self.store.reap()

    def do_pass(self, seconds: int) -> None:
        if not isinstance(self.world.journal, PostgresqlWorld):
            self.world.pass_time(seconds)

    @staticmethod
    def plain(budget: Budget) -> tuple[int, ...]:
        return (budget.cap, budget.spent, budget.granted, budget.overrun)

    def seen(self) -> Any:
        budgets = [self.plain(one) for one in self.store.budgets([self.prefix + name for name in SCOPES])]
        wanted = [one.removeprefix(self.prefix) for name in HOSTS for one in self.store.list_wanted(self.prefix + name)]
        held = [
            (n, one.attempt, one.usd_micros, one.settled, one.reason)
            for n in range(10)
            for one in self.store.list_reservations(f"{self.prefix}grant-{n}")
        ]
        return budgets, wanted, held


_prefixes = count(1)


@pytest.mark.parametrize("db", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_whatever_is_called_the_answers_are_the_same(db, request):
    made: SqliteWorld | PostgresqlWorld
    if db == "sqlite":
        made = SqliteWorld(request.getfixturevalue("sqlite_template"), request.getfixturevalue("tmp_path"))
    else:
        made = PostgresqlWorld(request.getfixturevalue("postgresql_dsn"))
    real = SharedWorld(made)

    @settings(
        max_examples=60 if db == "sqlite" else 30,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(steps=STEPS)
    def same(steps):
        prefix = f"{next(_prefixes)}:"
        if db == "postgresql":  # Whose time cannot be passed.
            steps = [step for step in steps if step[0] != "pass"]
        memory, real_ = Calls(SharedWorld(MemoryWorld()), prefix), Calls(real, prefix)
        memory.world.journal.clock.us = getattr(made, "clock", memory.world.journal.clock).us
        try:
            for step in steps:
                assert real_.do(step) == memory.do(step), step
                assert real_.seen() == memory.seen(), step
        finally:  # The next example's reaper shall find nothing of this one's.
            for name in HOSTS:
                real_.do_dies(name)
            real_.do_reap(None)

    try:
        same()
    finally:
        real.close()
