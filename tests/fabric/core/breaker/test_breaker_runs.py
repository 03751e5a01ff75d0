"""Runs in front of circuit breakers: a refused call is an attempt that was not sent, and the cell of its signal's row says what follows."""

import json

import pytest

from fabric.core import events as ev
from fabric.core.breaker.table import BreakerHappening, Standing, apply_happening, encode_standing
from fabric.core.spec.policies.breakers import endpoint
from fabric.core.values.flow import PROVIDER_AWAY, RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.journal.projection import columns
from simulator.stores.memory.guards import MemoryGuards
from simulator.world.breakers import VirtualBreakers
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import asks, call, fails, gives, say, summary

COOLDOWN_S = 30.0
ENDPOINT = {"preset": "endpoint", "cooldown_s": COOLDOWN_S, "success_threshold": 1}
OUTAGE = {"preset": "outage"}
SCOPE = "provider:scripted"


class Clock:
    """The world's."""

    world: World

    def now(self):
        return self.world.now


def world(script, *breakers, tier=Tier.BATCH, of=lone, **fields):
    clock = Clock()
    store = MemoryGuards(clock)
    made = World(of(breakers=list(breakers), **fields), script, tier=tier, breakers=VirtualBreakers(store))
    clock.world = made
    made.guards = store
    return made


def force(made, **how):
    (breaker,) = made.spec.policy.breakers
    opened = apply_happening(breaker, Standing(), BreakerHappening.FORCED_OPEN, **how)
    assert made.guards.change(SCOPE, breaker.kind, generation=0, state=encode_standing(opened))


def state(made, number=0):
    breaker = made.spec.policy.breakers[number]
    row = made.guards.guards([(SCOPE, breaker.kind)])[0]
    return json.loads(row.state).get("state", "closed") if row.state else "closed"


def test_batch_waits_for_the_breaker_and_goes_on_when_the_probe_passes():
    down = [fails(Cause.SERVER_ERROR)] * 5
    made = world({"worker": [*down, summary("Here.")]}, ENDPOINT).start().go()
    assert made.end.state is RunState.COMPLETED
    assert made.reactions == ["retry"] * 5 + ["wait_for_breaker"]
    assert len(made.requests) == 6
    refused = made.of(ev.AttemptFailed)[-1]
    assert (refused.trip.mechanism, refused.cause, refused.attempt) == ("circuit_breaker", Cause.SERVER_ERROR, 6)
    assert made.run.trouble.breakers == (SCOPE,)
    assert columns(made.run).breakers == f"\n{SCOPE}\n"
    waited = made.of(ev.RetryScheduled)[-1]
    assert waited.source == "breaker"
    fifth = next(event for event in made.events if event.fact.kind == "attempt_failed" and event.fact.attempt == 5)
    since_s = (waited.not_before - fifth.at) / 1_000_000
    assert waited.delay_s < COOLDOWN_S <= since_s, "it cools from the failure on that was one too many"
    assert state(made) == "closed"


@pytest.mark.parametrize(("scope", "own", "other"), [("agent", "worker", "planner"), ("stage", "fan_out", "plan")])
def test_a_breaker_that_names_others_is_neither_moved_nor_met(scope, own, other):
    """Of two with one policy the call moves the one that names it."""

    def reactions(*names):
        named = [ENDPOINT | {"scope": scope, "only": [name]} for name in names]
        return world({"worker": fails(Cause.SERVER_ERROR)}, *named, of=spec).start().go().reactions

    assert reactions(other) == ["retry"] * 5 + ["escalate"]
    assert reactions(other, own) == reactions(own) == ["retry"] * 5 + ["wait_for_breaker"] * 2 + ["escalate"]


def test_what_is_away_here_opens_no_breaker_of_an_endpoint_that_was_not_asked():
    away = fails(Cause.NETWORK, "the keys could not be read", never_sent=True)
    made = world({"worker": [away] * 4 + [summary("Here.")]}, OUTAGE).start().go()
    assert made.end.state is RunState.COMPLETED
    assert made.reactions == ["retry"] * 4
    assert state(made) == "closed"


@pytest.mark.parametrize("cause", [Cause.NETWORK, Cause.TIMEOUT, Cause.AUTH, Cause.BAD_CONFIGURATION])
def test_a_probe_that_was_never_sent_leaves_its_breaker_as_it_was(cause):
    down, unsent = fails(Cause.SERVER_ERROR), fails(cause, "no request went out", never_sent=True)
    made = world({"worker": [*[down] * 3, unsent]}, OUTAGE).start().go()
    assert state(made) == "half_open"


def test_it_waits_as_often_as_the_cell_says_and_then_asks_a_person():
    made = world({"worker": fails(Cause.SERVER_ERROR)}, ENDPOINT).start().go()
    assert made.reactions == ["retry"] * 5 + ["wait_for_breaker"] * 2 + ["escalate"]
    assert "half" not in made.review.fact.reason
    assert state(made) == "stopped"  # The third trip.


def test_a_refused_call_is_neither_sent_nor_paid_nor_a_retry():
    made = world({"worker": summary()}, ENDPOINT)
    force(made, by="dana", reason="maintenance")
    made.start().go()
    assert made.requests == []
    (refused,) = made.of(ev.AttemptFailed)
    assert (refused.charged_usd_micros, refused.charged_tokens, refused.retry_after_s) == (0, 0, None)
    assert made.reactions == ["escalate"]
    skipped = {fact.reaction: fact.reason for fact in made.of(ev.RungSkipped)}
    assert skipped["retry"] == "its circuit breaker is open, so no call is made; waiting is a separate option"
    assert skipped["wait_for_breaker"] == "only a person lets calls pass its circuit breaker again"
    assert "opened by dana: maintenance" in made.review.fact.reason
    (content,) = made.content_of(ev.AttemptFailed)
    assert json.loads(content["raw"]) == {  # S3's answer, as it is.
        "error": "circuit_breaker_open",
        "message": "worker is not called until a person resets it: its circuit breaker opened (forced)",
        "agent_id": "worker",
        "failures": 0,
        "threshold": 0.0,
        "retry_after_ms": None,
        "fallback_available": False,
    }


def test_interactive_does_not_wait_and_surfaces():
    made = world({"worker": summary()}, ENDPOINT, tier=Tier.INTERACTIVE)
    force(made, by="dana", reason="maintenance")
    made.start().go()
    assert (made.end.state, made.end.reaction) == (RunState.FAILED, "surface")


def test_a_wait_that_its_stage_has_no_time_for_is_passed_over():
    slow = {"preset": "endpoint", "cooldown_s": 5_000.0}
    made = world({"worker": fails(Cause.SERVER_ERROR)}, slow).start().go()
    (skipped,) = [fact for fact in made.of(ev.RungSkipped) if fact.reaction == "wait_for_breaker"]
    assert skipped.reason.startswith("deadline_near:")


def test_an_agent_whose_answers_have_no_form_is_stopped_at_the_second():
    loose = {"preset": "semantic"}
    cell = {"schema_grounding_fail": {"batch": {"rungs": [{"reaction": "abort"}]}}}
    made = world({"worker": say("")}, loose, table=cell).start().go()
    assert (len(made.requests), made.end.state) == (2, RunState.ABORTED)
    decided = made.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.mechanism) == ("schema_grounding_fail", "circuit_breaker")
    assert decided.cause.evidence.details["signal"] == "schema_invalid"


def test_calls_that_repeat_with_other_results_are_stopped_after_the_third():
    ticks = [gives(f"tick {word}") for word in ("one", "two", "three", "four", "five")]
    again = [asks(call("look", q="x")) for _ in range(5)]
    cell = {"infinite_tool_loop": {"batch": {"rungs": [{"reaction": "abort"}]}}}
    made = world({"worker": again, "look": ticks}, {"preset": "semantic"}, table=cell).start().go()
    assert len(made.executed) == 3
    assert made.of(ev.ReactionDecided)[0].cause.evidence.details["signal"] == "identical_call"


@pytest.mark.parametrize("after_s", [0.0, COOLDOWN_S / 2])
def test_who_takes_the_run_over_waits_on(after_s):
    down = [fails(Cause.SERVER_ERROR)] * 5
    made = world({"worker": [*down, summary("Here.")]}, ENDPOINT).start()
    made.go(until_s=60.0)
    assert made.of(ev.RetryScheduled)[-1].source == "breaker"
    made.wait(after_s)
    made.crash().go()
    assert made.end.state is RunState.COMPLETED
    assert len(made.requests) == 6


def test_waits_are_spread_so_that_not_all_come_back_at_once():
    waits = set()
    for seed in range(5):
        made = world({"worker": fails(Cause.SERVER_ERROR)}, ENDPOINT)
        made.seed = seed
        made.start().go()
        waits.add(next(fact.delay_s for fact in made.of(ev.RetryScheduled) if fact.source == "breaker"))
    assert len(waits) == 5


def test_without_breakers_nothing_is_looked_at():
    made = world({"worker": fails(Cause.SERVER_ERROR)}).start().go()
    assert made.reactions == ["retry"] * 5 + ["escalate"]
    assert endpoint().kind not in str(vars(made.guards))


@pytest.mark.parametrize(
    ("told_s", "waits", "least_s", "most_s"),
    [(1.0, 0, 4.0, 20.0), (7.0, 1, 28.0, 45.0), (0.0, 2, 120.0, 140.0), (None, 2, 120.0, 140.0)],
)
def test_four_429s_take_as_long_as_they_ask_for(told_s, waits, least_s, most_s):
    """Three open the breaker, the fourth is its probe. With a told wait it cools so long, after a probe twice as long; without one it cools for 60 s, twice."""
    limited = [fails(Cause.RATE_LIMIT, retry_after_s=told_s)] * 4
    made = world({"worker": [*limited, summary("Here.")]}, {"preset": "rate_limit"}).start().go()
    assert made.end.state is RunState.COMPLETED
    assert made.reactions.count("wait_for_breaker") == waits
    assert len(made.requests) == 5
    took_s = (made.events[-1].at - made.events[0].at) / 1_000_000
    assert least_s <= took_s <= most_s
    assert state(made) == "closed"


def test_a_told_wait_shortens_a_long_cooldown():
    limited = [fails(Cause.RATE_LIMIT, retry_after_s=50.0)] * 3
    made = world({"worker": [*limited, summary("Here.")]}, {"preset": "rate_limit", "cooldown_s": 600.0}).start().go()
    assert made.end.state is RunState.COMPLETED
    assert (made.events[-1].at - made.events[0].at) / 1_000_000 < 200


def test_a_quota_is_not_asked_again_and_the_review_says_when_it_is_back():
    said = "https://x says that the account's quota or credit is used up (HTTP 429); it is back at 2026-11-28 18:00 UTC"
    used_up = fails(Cause.QUOTA, said, retry_after_s=20_000.0)
    made = world({"worker": used_up}, {"preset": "rate_limit"}, tier=Tier.HIGH_STAKES).start().go()
    assert len(made.requests) == 1
    assert "it is back at 2026-11-28 18:00 UTC" in made.review.fact.reason
    failed = world({"worker": used_up}, {"preset": "rate_limit"}, tier=Tier.INTERACTIVE).start().go()
    assert len(failed.requests) == 1
    assert "it is back at 2026-11-28 18:00 UTC" in failed.end.reason


def test_an_agent_that_was_stopped_for_the_same_call_may_say_its_last_word():
    """The breaker that stopped it refuses calls that repeat, and a last word has none."""
    same = {"scope": "agent", "signals": [{"names": ["identical_call"], "mode": "consecutive", "threshold": 2}]}
    script = {"worker": [asks(call(q="x")), asks(call(q="x")), summary("What I have.")], "look": gives("one")}
    made = world(script, same, tier=Tier.INTERACTIVE).start().go()
    assert made.reactions == ["terminate"]
    assert (made.end.state, len(made.requests)) == (RunState.STOPPED, 3)


def test_a_run_that_waits_for_its_provider_says_until_when_and_names_the_failure():
    made = world({"worker": fails(Cause.SERVER_ERROR, "the endpoint answered 503")}, OUTAGE).start()
    made.go(until_s=20)
    assert made.requests[3:] == []
    now = columns(made.run)
    assert now.state is RunState.RUNNING, "no person is asked"
    assert now.reason.startswith(f"{PROVIDER_AWAY}2027-01-15 08:00:")
    assert now.reason.endswith(": the endpoint answered 503")
    made.go()
    (review,) = made.run.reviews.values()
    assert review.fact.reason.startswith("the endpoint answered 503"), review.fact.reason


def test_a_run_that_has_something_else_to_do_does_not_wait_for_its_provider():
    def worker(command):
        return fails(Cause.SERVER_ERROR) if command.step_id.startswith("fan_out.0") else summary().after(300)

    made = world({"worker": worker}, OUTAGE, workers=2).start()
    made.go(until_s=20)
    assert columns(made.run).reason == ""


def test_a_short_pause_before_a_retry_is_no_wait_for_the_provider():
    made = world({"worker": fails(Cause.SERVER_ERROR)}, tier=Tier.INTERACTIVE).start()
    seen = set()
    for _ in range(6):
        made.go(steps=1)
        seen.add(columns(made.run).reason)
    assert seen == {""}


def test_waiting_for_the_probe_of_another_run_is_not_counted():
    """Batch waits twice. Another run's probe hangs for 100 s, so this run meets it four times and still goes on."""
    made = world({"worker": summary("Here.")}, ENDPOINT)
    (breaker,) = made.spec.policy.breakers
    opened = apply_happening(breaker, Standing(), BreakerHappening.TRIPPED, signal="server_error", failures=3)
    assert made.guards.change(
        SCOPE,
        breaker.kind,
        generation=0,
        state=encode_standing(apply_happening(breaker, opened, BreakerHappening.COOLED)),
    )
    assert made.guards.permit(SCOPE, breaker.kind, generation=1, holder="another run", for_s=100.0)
    made.start().go()
    assert made.reactions == ["wait_for_breaker"] * 4
    assert {one.spent for one in made.of(ev.ReactionDecided)} == {0}
    assert (made.end.state, len(made.requests)) == (RunState.COMPLETED, 1)


@pytest.mark.parametrize(("cause", "said"), [(Cause.SERVER_ERROR, "server error"), (Cause.RATE_LIMIT, "rate limit")])
def test_a_breaker_of_several_failures_names_the_one_that_came(cause, said):
    signal = {"names": ["rate_limit", "server_error"], "mode": "consecutive", "threshold": 2}
    breaker = {"scope": "provider", "signals": [signal], "cooldown_s": COOLDOWN_S}
    made = world({"worker": [fails(cause)] * 8}, breaker, tier=Tier.INTERACTIVE).start().go()
    refused = [fact for fact in made.of(ev.AttemptFailed) if fact.trip and fact.trip.mechanism == "circuit_breaker"]
    assert {fact.cause for fact in refused} == {cause}
    assert f"2 times {said}" in refused[0].message
