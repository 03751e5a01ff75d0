"""Any interleaving of processes that spend, die, wait, give back and are raised or lowered: the cap holds after each step, and nothing is lost."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from fabric.runtime.ports.journal import BatchFate
from fabric.worker.spending.grants import LIFE_S, OVERDUE_S
from tests.fabric.stores.grant_worlds import FABRIC
from tests.fabric.stores.journal_worlds import WORKSPACE
from tests.fabric.worker.spending.scenes import Site
from tests.sets import many

AMOUNT = st.integers(1, 200)


class Spending(RuleBasedStateMachine):
    processes = Bundle("processes")

    @initialize(hourly=st.booleans(), cap=st.integers(1, 5_000))
    def opens(self, hourly, cap):
        self.site = Site(cap, hourly=hourly)
        self.commands = 0
        self.handed, self.open, self.charged = [], [], {}

    @rule(target=processes)
    def starts(self):
        return self.site.process()

    @rule(process=processes, amount=AMOUNT, at_once=st.booleans())
    def spends(self, process, amount, at_once):
        if process.name in self.site.dead:
            return
        if process.book.available(FABRIC) < amount:
            process.need(amount)
            if not at_once:
                return
            process.turn()
        if process.book.available(FABRIC) < amount:
            return
        one = process.spend(amount, f"c{self.commands}")
        self.commands += 1
        self.handed.append((process, one))

    @rule(data=st.data())
    def a_batch_is_written(self, data):
        if self.handed:
            process, one = self.handed.pop(data.draw(st.integers(0, len(self.handed) - 1)))
            if process.write(one) is BatchFate.COMMITTED:
                self.open.append((process, one))
                self.charged[one.run_id, one.command_id] = one.usd_micros

    @rule(data=st.data(), share=st.integers(0, 4))
    def a_call_comes_back(self, data, share):
        """``share`` 4: unknown, charged at worst case."""
        if not self.open:
            return
        process, one = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        if process.name in self.site.dead:
            return
        amount = None if share == 4 else one.usd_micros * share // 4
        process.settle(one.command_id, amount)
        if amount is not None:
            self.charged[one.run_id, one.command_id] = amount

    @rule(process=processes)
    def dies(self, process):
        self.site.dead.add(process.name)

    @rule(process=processes)
    def ends(self, process):
        process.book.end()

    @rule(cap=st.integers(0, 6_000))
    def the_cap_is_changed(self, cap):
        self.site.store.set_cap(FABRIC, cap, workspace_id=WORKSPACE)

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, LIFE_S, OVERDUE_S, 3_600.0]))
    def time_passes(self, seconds):
        self.site.pass_time(seconds)

    @rule()
    def the_reaper_looks(self):
        self.site.store.reap()

    @invariant()
    def nothing_is_spent_that_was_not_granted(self):
        if not hasattr(self, "site"):
            return
        budget = self.site.store._budgets[FABRIC]
        grants = [one for one in self.site.store._grants.values() if one.state != "closed"]
        assert budget.granted == sum(one.amount for one in grants)
        assert min(budget.spent, budget.granted) >= 0
        assert all(type(one) is int for one in (budget.spent, budget.granted, budget.overrun))
        assert budget.overrun == 0
        assert not budget.hourly or budget.spent == sum(budget.windows.values())
        for grant in self.site.store._grants.values():
            assert self.site.store._sum_used(grant) <= grant.amount or grant.state == "closed"

    @invariant()
    def the_cap_holds_unless_it_was_lowered(self):
        if hasattr(self, "site"):
            budget = self.site.store._budgets[FABRIC]
            lowest = getattr(self, "lowered_to", None)
            together = budget.spent + budget.granted
            if together > budget.cap:
                assert lowest is None or together <= lowest
                self.lowered_to = together
            else:
                self.lowered_to = budget.cap

    def teardown(self):
        if not hasattr(self, "site"):
            return
        self.site.dead.update(one.name for one in self.site.processes)
        self.site.store.reap()
        spent, granted, overrun = self.site.stands
        held = [one for grant in self.site.store._grants for one in self.site.store.list_reservations(grant)]
        assert all(one.settled is not None for one in held)
        assert {(one.run_id, one.command_id): one.settled for one in held} == self.charged
        assert (granted, overrun) == (0, 0)
        budget = self.site.store._budgets[FABRIC]
        assert spent <= sum(self.charged.values()) if budget.hourly else spent == sum(self.charged.values())


Spending.TestCase.settings = settings(max_examples=many(300), stateful_step_count=60, deadline=None)
TestSpending = Spending.TestCase
