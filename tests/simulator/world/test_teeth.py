"""The invariants have teeth: each bug put into the engine here is found by the rule that it breaks."""

import dataclasses
from typing import Any

import pytest

from fabric.core import engine, handlers
from fabric.core import events as ev
from fabric.core.budgets import spend_rate as shared_pace
from fabric.core.calls import dependencies, proposed, screening
from fabric.core.child_runs import children
from fabric.core.decision import slices
from fabric.core.events.inputs import CancelRequested, OwnerChanged, TimeReached
from fabric.core.handlers import results
from fabric.core.ladders import ladder
from fabric.core.mechanisms import budget, deadline, hop_limit, loop_detector, progress, retry_budget, saga
from fabric.core.reactions import react as reactions
from fabric.core.reviews import asking_before, raised_cap, reviews
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.state.evaluators import Evaluators
from fabric.core.steps import agent_loop
from fabric.core.values.flow import RunState
from fabric.core.values.frozen import replace
from fabric.core.values.identity_cache import forget_results
from fabric.core.values.taxonomy import PASS
from fabric.runtime import arrivals, driver
from fabric.runtime.happenings import Perform, Taken
from fabric.runtime.journal import loader as loading
from fabric.runtime.journal import projection
from simulator.rules.facts.journals import CHECKS
from simulator.world.campaign import campaign

BUGS: dict[str, tuple[Any, tuple[str, ...], int]] = {}


def bug(*found_by, first=0):
    """``first``: where the search begins for what does not come up at once, shortly before the first world that finds it."""

    def register(function):
        BUGS[function.__name__] = (function, found_by, first)
        return function

    return register


@bug("intent_before_effect")
def effects_go_out_before_their_commit(patch):
    out = driver.RunDriver._out

    def early(self, before, emitted, commands, consumed, now):
        return [*out(self, before, emitted, [], consumed, now), *(Perform(command) for command in commands)]

    patch.setattr(driver.RunDriver, "_out", early)


@bug("input_consumed_once", "liveness")
def an_input_is_taken_as_often_as_it_is_seen(patch):
    patch.setattr(arrivals.Arrivals, "is_known", lambda self, item: False)


@bug("bills_are_charged", first=80)
def an_interrupted_call_is_free(patch):
    fact = ev.AttemptInterrupted
    patch.setattr(ev, "AttemptInterrupted", lambda **fields: fact(**{**fields, "charged_usd_micros": 0}))


@bug("bills_are_charged")
def an_aborted_call_is_free(patch):
    fact = ev.CallAborted
    patch.setattr(ev, "CallAborted", lambda **fields: fact(**{**fields, "charged_usd_micros": 0}))


@bug("nothing_issued_too_late", "decision_derives", first=40)
def deadlines_are_not_asked(patch):
    patch.setattr(deadline, "check", lambda *asked: PASS)


@bug("retries_in_bucket", "retries_take_shared_tokens")
def the_retry_budget_is_not_asked(patch):
    patch.setattr(retry_budget, "check", lambda *asked: PASS)


@bug("agents_in_bounds", "turns_in_bounds", "visits_in_bounds")
def counts_are_not_asked(patch):
    patch.setattr(hop_limit, "check", lambda *asked: PASS)


@bug("caps_are_kept", "decision_derives")
def caps_of_stages_and_agents_are_not_asked(patch):
    patch.setattr(budget, "list_scopes", lambda stage, agent: (("run", "usd_micros"), ("call", "usd_micros")))


@bug("together_too_fast")
def any_pace_of_runs_together_is_too_fast(patch):
    patch.setattr(shared_pace, "empties_too_soon", lambda rule, pace: pace.calls > 0)


@bug("cap_was_named", "other_caps_were_named")
def any_cap_is_taken(patch):
    patch.setattr(raised_cap, "problem", lambda *asked: "")


@bug("said_by_a_decision")
def another_model_is_taken_silently(patch):
    fact = ev.ModelChanged
    patch.setattr(ev, "ModelChanged", lambda **fields: fact(**{**fields, "reason": "because"}))


@bug("said_by_a_decision", first=25)
def an_alert_says_something_else(patch):
    fact = ev.AlertRaised
    patch.setattr(ev, "AlertRaised", lambda **fields: fact(**{**fields, "reaction": "abort"}))


@bug("loops_in_bounds", first=35)
def loops_are_not_detected(patch):
    patch.setattr(loop_detector, "check", lambda *asked: PASS)


@bug("progress_in_bounds", first=655)
def outcomes_are_not_looked_up(patch):
    patch.setattr(progress, "check", lambda *asked: PASS)


@bug("visits_in_bounds")
def visits_are_not_counted(patch):
    patch.setattr(hop_limit, "visits_allowed", lambda *asked, **more: None)


@bug("handed_over_upwards", first=35)
def work_is_handed_over_to_any_agent(patch):
    def hand_over(work, failure, choice):
        other = work.compiled_fabric.spec.topology.workers[-1]
        reactions.replan(work, failure.stage, choice.trip, planner=other)

    patch.setitem(reactions.REACTIONS, Reaction.HANDOVER, hand_over)


@bug("falls_back_on_what_is_given", first=55)
def a_fallback_needs_no_answer(patch):
    def fall_back(work, failure, choice):
        reactions.end(work, RunState.COMPLETED, Reaction.SAFE_FALLBACK, "the fabric has a static answer")

    patch.setitem(reactions.REACTIONS, Reaction.SAFE_FALLBACK, fall_back)


@bug("liveness")
def no_worker_is_woken(patch):
    patch.setattr(engine, "wake_at", lambda run, announced=frozenset(), policy=None: None)


@bug("liveness", "no_expiry_over_an_answer")
def inputs_that_waited_are_overlooked(patch):
    taken = driver.RunDriver._take_claim

    def hasty(self, happening, now):
        return taken(self, Taken(dataclasses.replace(happening.claimed, inbox=()), happening.incarnation), now)

    patch.setitem(driver._STEPS, Taken, hasty)


@bug("liveness", first=275)
def a_new_owner_waits_for_calls_that_are_gone(patch):
    patch.setitem(handlers.HANDLERS, OwnerChanged, lambda work, given: None)


@bug("cancel_lets_go")
def a_cancel_leaves_calls_out(patch):
    def cancelled(work, given):
        work.emit(ev.CancelAccepted(actor=given.actor))
        if work.run.ending is None:
            reactions.end(work, RunState.CANCELLED, "cancel", "cancelled")

    patch.setitem(handlers.HANDLERS, CancelRequested, cancelled)


@bug("attempts_in_order")
def a_retry_gets_another_key(patch):
    key, numbers = saga.key, iter(range(1_000_000))
    patch.setattr(saga, "key", lambda *parts: f"{key(*parts)}{next(numbers)}")


@bug("attempts_in_order", first=102)
def a_retry_does_not_wait(patch):
    reached = handlers.HANDLERS[TimeReached]

    def hasty(work, given):
        reached(work, given)
        for command_id in list(work.run.timers):
            if work.run.ending is None and command_id in work.run.timers:
                agent_loop.issue_again(work, work.run.pending[command_id])

    patch.setitem(handlers.HANDLERS, TimeReached, hasty)


@bug("answers_what_is_out", "settled_once")
def any_attempt_answers(patch):
    answers = results._answers

    def trusting(work, given):
        return answers(work, given) or work.run.pending.get(given.command_id)

    patch.setattr(results, "_answers", trusting)


@bug("replans_in_bounds", "decision_derives")
def replans_are_not_counted(patch):
    spent = ladder.replans_spent
    patch.setattr(ladder, "replans_spent", lambda work, stage: spent(work, stage) if slices.in_slice(work.run) else "")


@bug("rounds_in_bounds")
def people_are_asked_for_ever(patch):
    patch.setattr(reviews, "rounds_spent", lambda work, failure: False)
    for (
        kind,
        checks,
    ) in CHECKS.items():  # A decision that does not derive says so first; the rounds are counted all the same.
        patch.setitem(CHECKS, kind, [check for check in checks if check.__name__ != "decision_derives"])


# What was meant for another review may not even be readable as an answer to this one.
@bug("answers_an_open_review", "no_exception", first=150)
def a_decision_about_something_else_counts(patch):
    refused = reviews.refuse_decision

    def lax(work, given):
        return "" if given.review_id in work.run.reviews else refused(work, given)

    patch.setattr(reviews, "refuse_decision", lax)


@bug("clocks_run_while_live")
def the_clocks_stay_stopped(patch):
    patch.setattr(reviews, "resume_clocks", lambda work: None)


@bug("chain", "undamaged_is_read")
def a_new_owner_forgets_the_chain(patch):
    load = driver.load

    def forgetful(claimed, *more):
        loaded = load(claimed, *more)
        return loaded if isinstance(loaded, loading.JournalDamage) else replace(loaded, head=b"\0" * 32)

    patch.setattr(driver, "load", forgetful)


@bug("reviews_are_the_fold")
def withdrawn_reviews_stay_in_the_table(patch):
    shown = projection.review_changes
    patch.setattr(
        projection, "review_changes", lambda emitted: tuple(c for c in shown(emitted) if c.verb != "withdrawn")
    )


@bug("columns_are_the_fold")
def the_row_shows_another_epoch(patch):
    shown = projection.columns
    patch.setattr(projection, "columns", lambda run: dataclasses.replace(shown(run), epoch=0))


@bug("columns_are_the_fold", "refold")
def state_changes_without_an_event(patch):
    move = agent_loop.move

    def sly(work, step):
        work.run = replace(work.run, truncated=True)
        return move(work, step)

    patch.setattr(agent_loop, "move", sly)


@bug("settled_once", first=35)
def a_late_result_is_charged_again(patch):

    def recorded(work, given):
        if given.command_id in work.run.voided:
            work.emit(
                ev.CallAborted(command_id=given.command_id, attempt=given.attempt, reason="again", charged_usd_micros=1)
            )
        return answers(work, given)

    answers = results._answers
    patch.setattr(results, "_answers", recorded)


@bug("answered_once_with_what_it_cost")
def a_child_costs_its_parent_nothing(patch):
    told = children.ChildEnded
    patch.setattr(children, "ChildEnded", lambda **fields: told(**{**fields, "cost_usd_micros": 0}))


@bug("child_is_what_its_parent_spawned")
def a_child_takes_more_than_was_reserved(patch):
    given = children.ChildRequested
    patch.setattr(
        children, "ChildRequested", lambda **fields: given(**{**fields, "cap_usd_micros": fields["cap_usd_micros"] + 1})
    )


@bug("child_is_what_its_parent_spawned", "spawned_once")
def a_child_stays_on_its_parents_level(patch):
    given = children.ChildRequested
    patch.setattr(children, "ChildRequested", lambda **fields: given(**{**fields, "depth": fields["depth"] - 1}))


@bug("liveness")
def a_child_does_not_say_that_it_has_ended(patch):
    patch.setattr(children, "report", lambda work: None)


@bug("no_child_outlives_its_parent", "refold", "terminal_absorbs", "nothing_left_reserved")
def a_parent_does_not_wait_for_its_children(patch):
    settle = reactions.settle

    def hasty(work):
        work.run = replace(work.run, family=replace(work.run.family, alive={}))
        settle(work)

    patch.setattr(reactions, "settle", hasty)


@bug("data_fits")
def data_is_not_asked_for(patch):
    patch.setattr(agent_loop, "contract", lambda run, spec, step: "")


@bug("data_fits", first=170)
def whatever_is_answered_fits(patch):
    patch.setattr(Evaluators, "misfits", lambda self, agent, answer: [])


@bug("references_are_followed")
def calls_are_sent_with_their_references(patch):
    patch.setattr(dependencies, "settle_references", lambda work, step, one: one)


@bug("references_are_followed")
def a_call_goes_out_before_what_it_refers_to(patch):
    patch.setattr("fabric.core.state.run.Step.is_free", lambda step, record: True)


@bug("references_are_followed", first=10)
def what_failed_is_referred_to_as_if_it_had_not(patch):
    patch.setattr(dependencies, "_has_failed", lambda step, call_id: False)
    at = proposed._find_value

    def anything(reference, answer_of):
        try:
            return at(reference, answer_of)
        except proposed.Unresolved:
            return "something"

    patch.setattr(proposed, "_find_value", anything)


@bug("writes_do_not_meet", first=300)
def two_calls_of_one_answer_write_the_same(patch):
    patch.setattr(screening, "find_conflicts", lambda work, step, wave, sure: {})


@bug("writes_do_not_meet", first=1_255)
def the_last_to_come_back_wins(patch):
    patch.setattr(screening, "order_writes", lambda spec, proposals: proposals)


@bug("asked_before", first=25)
def rules_of_tools_are_not_asked(patch):
    patch.setattr(asking_before, "_rule_asks", lambda work, step, one: (False, ""))


@bug("asked_before", first=25)
def an_unknown_rule_lets_pass(patch):
    asked = asking_before._rule_asks

    def sure(work, step, one):
        asks, unsure = asked(work, step, one)
        return asks and not unsure, unsure

    patch.setattr(asking_before, "_rule_asks", sure)


@bug("references_are_followed", first=1720)
def a_replaced_call_goes_to_the_tool_that_its_model_proposed(patch):
    read = proposed.read
    patch.setattr(proposed, "read", lambda work, record, call: replace(read(work, record, call), tool=call["tool"]))


@pytest.fixture
def without_results():
    """The engine forgets the results that it computed with a bug."""
    yield
    forget_results()


@pytest.mark.usefixtures("without_results")
@pytest.mark.parametrize("name", BUGS)
def test_the_bug_is_found(name, monkeypatch):
    plant, found_by, first = BUGS[name]
    plant(monkeypatch)
    forget_results()
    found = next(report for report in campaign(range(first, first + 600)) if report.violations)
    assert found.violations[0].invariant in found_by
