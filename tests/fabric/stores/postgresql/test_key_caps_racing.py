"""A key's day and month under many processes at once, on PostgreSQL: nothing is granted past a cap, nothing is lost, and a cap that is lowered meanwhile holds."""

import random
import threading

import pytest

from fabric.core.budgets.key_caps import KeyCap
from fabric.runtime.ports.journal import BatchFate
from fabric.runtime.ports.spending import Budget, Grant
from tests.fabric.stores.grant_worlds import entries, reserving, settling
from tests.fabric.stores.journal_worlds import WORKSPACE

pytestmark = pytest.mark.postgresql

NOON = 1_795_867_200_000_000
KEY = KeyCap(WORKSPACE, "https://llm.example.com:443", day_usd_micros=3_000, month_usd_micros=4_000)
SCOPES = KEY.scopes(NOON)
RACERS, CALLS = 6, 25
ABOVE = "SELECT count(*) FROM fabric_budget WHERE spent + granted > cap OR spent < 0 OR granted < 0"


class Racer(threading.Thread):
    """One process: takes from both budgets, reserves in both, settles both at what the call cost, gives the rest back."""

    def __init__(self, shared, name):
        super().__init__(name=name, daemon=True)
        self.grants, self.cost, self.refused, self.failed = shared.another(), 0, 0, []
        self.drawn = random.Random(name)

    def run(self):
        try:
            for n in range(CALLS):
                self.call(n)
        except Exception as error:  # noqa: BLE001 - Only this thread would see what it raises.
            self.failed.append(error)

    def call(self, n):
        amount, held = self.drawn.randint(20, 90), []
        for scope in SCOPES:
            self.grants.set_cap(scope, KEY.cap_of(scope), workspace_id=WORKSPACE, only_new=True)
            grant_id = f"{self.name}-{n}-{scope[:5]}"
            found = self.grants.take(self.name, scope, grant_id=grant_id, enough=amount, chunk=amount)
            if isinstance(found, Budget):
                self.refused += 1
                break
            assert isinstance(found, Grant)
            held.append(found)
        if len(held) == len(SCOPES):
            cost, run = self.drawn.randint(0, amount), f"{self.name}-{n}"
            reserved = [reserving(one.grant_id, amount, run=run) for one in held]
            assert self.grants.reserve([entries(*reserved)]) == [BatchFate.COMMITTED]
            self.grants.reserve([entries(settling(cost, run=run))])
            self.cost += cost
        self.grants.close(self.name, [one.grant_id for one in held])


def test_no_race_spends_past_a_key(shared_postgresql):
    shared = shared_postgresql
    racers = [Racer(shared, f"racer-{n}") for n in range(RACERS)]
    shared.live(*(one.name for one in racers))
    for one in racers:
        one.start()
    lowering, above = 0, 0
    while any(one.is_alive() for one in racers):
        above += shared.journal.ask(ABOVE)[0][0]
        lowering += 1
        if lowering % 5 == 0 and shared.grants.budgets(SCOPES[:1]):
            shared.cap(2_000 if lowering % 10 else 3_000, SCOPES[0])
        racers[0].join(0.01)
    assert [error for one in racers for error in one.failed] == []
    assert above == 0
    spent = sum(one.cost for one in racers)
    assert sum(one.refused for one in racers) > 0, "no thread reached the cap"
    for scope in SCOPES:
        assert shared.stands(scope) == (spent, 0, 0)
    assert spent <= KEY.day_usd_micros
