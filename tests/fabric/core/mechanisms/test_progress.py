"""The progress hash: unchanged for 3 supervisor or 6 agent turns, for more where they ask something else (docs/specification/failures.md, row semantic no-progress)."""

from __future__ import annotations

import itertools

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from fabric.runtime.ports.journal import Document
from fabric.tools.calculator import calculate
from fabric.tools.documents import search_documents
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, fails, gives, planned, scored, summary

ABOUT = "the lighthouse keepers"
WORDS = (
    "please",
    "now",
    "again",
    "really",
    "perhaps",
    "then",
    "still",
    "too",
    "exactly",
    "once more",
    "indeed",
    "there",
)


def questions():
    """A model that asks the same in other words, for ever; too different for detector C, which would stop it sooner."""
    words = itertools.cycle(WORDS)
    return lambda command: asks(question(next(words)))


def question(word: str):
    return call(q=f"{ABOUT} {word} {word}ly")


def changing():
    numbers = itertools.count()
    return lambda command: gives(f"row {next(numbers)}")


def requests_until_trip(world) -> int:
    first = next(n for n, fact in enumerate(world.facts) if isinstance(fact, ev.ReactionDecided))
    assert world.facts[first].cause.cause is Cause.NO_PROGRESS
    return sum(isinstance(fact, ev.ModelAnswered) for fact in world.facts[:first])


def test_six_turns_that_come_to_the_same_are_too_many():
    world = ran(lone(), {"worker": questions(), "look": gives("nothing found")})
    assert requests_until_trip(world) == 6
    assert len(world.executed) == 6
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.reaction) == (FailureType.NO_PROGRESS, "terminate")
    assert decided.cause.message == (
        "agent worker called look in 6 turns in a row with like arguments, and each came to the same result (limit 6)"
    )
    assert (decided.cause.evidence.limit, decided.cause.evidence.unit) == (6, "turns")


def rounds(*tools: str, word=lambda n: WORDS[n % len(WORDS)]):
    """A model that goes round several tools, in other words each time, and what each of them says is always the same."""
    numbers = itertools.count()

    def asked(command):
        n = next(numbers)
        return asks(call(tools[n % len(tools)], q=f"{ABOUT} {word(n)} {word(n)}ly"))

    return {"worker": asked, **{tool: gives(f"nothing in {tool}") for tool in tools}}


@pytest.mark.parametrize(("tools", "turns"), [(("look", "find"), 6), (("look", "find", "ask"), 9)])
def test_rounds_of_several_tools_whose_results_each_stay_the_same_are_no_progress(tools, turns):
    world = ran(lone(tools=tools), rounds(*tools))
    assert requests_until_trip(world) == turns
    assert world.of(ev.ReactionDecided)[0].cause.message == (
        f"agent worker called {' and '.join(tools)} in {turns} turns in a row with like arguments, and every round came to the same results (limit {turns})"
    )


def test_rounds_that_bring_something_or_ask_something_else_go_on():
    news = {**rounds("look", "find"), "find": changing()}
    assert Cause.NO_PROGRESS not in {
        trip.cause.cause for trip in ran(lone(tools=("look", "find")), news).of(ev.ReactionDecided)
    }
    scan = ran(lone(tools=("look", "find")), rounds("look", "find", word=lambda n: f"page-{n // 2}"))
    assert requests_until_trip(scan) > 6


def test_results_are_masked():
    seconds = itertools.count(10)
    look = lambda command: gives(f"nothing by 2026-01-01T10:00:{next(seconds)}Z")  # noqa: E731
    assert requests_until_trip(ran(lone(), {"worker": questions(), "look": look})) == 6


def test_three_turns_of_the_planner_are_too_many():
    fabric = spec(roles=("planner",), agents={"planner": {"tools": ["look"]}})
    world = ran(fabric, {"planner": [*[asks(question(word)) for word in WORDS[:3]], planned()]})
    assert requests_until_trip(world) == 3
    assert "supervisor planner called" in world.of(ev.ReactionDecided)[0].cause.message
    assert (world.end.state, world.end.truncated) == (RunState.STOPPED, True)


@pytest.mark.parametrize("what", ["other results", "an answer in time", "polling", "changes"])
def test_what_is_progress(what):
    tool = {"polling": {"polling": True}, "changes": {"effect": "idempotent"}}.get(what, {})
    turns = 5 if what == "an answer in time" else 8
    script = {"worker": [*[asks(question(word)) for word in WORDS[:turns]], summary()]}
    script["look"] = changing() if what == "other results" else gives("not yet")
    world = ran(lone(tool=tool), script)
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, [])


def test_what_another_branch_brings_is_progress_of_the_run():
    lines = {0: [asks(question(word)).after(1.0) for word in WORDS[:9]] + [summary()]}

    def worker(command):
        branch = int(command.command_id.split(".")[1])
        if branch:
            return summary().after(4.5)
        return lines[0].pop(0)

    world = ran(spec(roles=(), workers=2), {"worker": worker, "look": gives("nothing found")})
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, [])


def test_retries_are_no_turns():
    answers = []
    for n in range(5):
        answers += [fails(Cause.SERVER_ERROR), asks(question(WORDS[n]))]
    world = ran(lone(retry={"bucket": 10}), {"worker": [*answers, summary()], "look": gives("nothing found")})
    assert (world.end.state, set(world.reactions)) == (RunState.COMPLETED, {"retry"})


def test_the_numbers_are_the_policys():
    world = ran(lone(progress={"agent_turns": 2}), {"worker": questions(), "look": gives("nothing found")})
    assert requests_until_trip(world) == 2


# -- in each tier ------------------------------------------------------------------------------------------------------


def stuck(tier: Tier, **script):
    given = {"worker": questions(), "look": gives("nothing found"), "critic": scored(0.9), **script}
    return ran(spec(), given, tier=tier)


def test_interactive_terminates_and_keeps_what_it_has():
    answers = [*[asks(question(word)) for word in WORDS[:6]], summary("What I have.")]
    world = stuck(Tier.INTERACTIVE, worker=answers)
    assert world.reactions == ["terminate"]
    assert (world.end.state, world.end.truncated, world.end.recovered) == (RunState.STOPPED, True, False)


def test_interactive_surfaces_where_the_last_word_is_no_answer():
    world = stuck(Tier.INTERACTIVE)
    assert world.reactions == ["terminate", "surface", "surface"]
    assert world.end.state is RunState.FAILED


def test_batch_replans_once_and_escalates_then():
    world = stuck(Tier.BATCH)
    assert world.reactions == ["replan", "escalate"]
    world.decide("reject").go()
    assert (world.end.state, world.end.reaction) == (RunState.ABORTED, "reject")


def test_high_stakes_escalates_and_an_approval_runs_it_once_more():
    answers = [*[asks(question(word)) for word in WORDS[:6]], summary()]
    world = stuck(Tier.HIGH_STAKES, worker=answers)
    assert world.reactions == ["escalate"]
    world.decide("approve").go()
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)


# -- what the turns ask ------------------------------------------------------------------------------------------------

SEARCHES = (
    "harbour fees",
    "who built the pier",
    "list of shipwrecks",
    "lamp oil prices",
    "fog horn",
    "tides in spring",
    "wages of pilots",
    "the keeper's name",
)
PARAPHRASED = "find one more old record about these famous lighthouse keepers"


def built_in(queries, tier=Tier.INTERACTIVE, found=(), **fields) -> World:
    """A run whose worker asks the built-in search one query a turn and answers then; ``found``: queries that hit."""
    world = World(lone(tools=("search_documents",), **fields), {}, tier=tier)

    def search(command):
        query = world.executed[-1][1]["query"]
        text = query if query in found else "Nobody paints it."
        return gives(search_documents([Document("log.md", text)], query))

    asked = [asks(call("search_documents", query=query)) for query in queries]
    world.script = {"worker": [*asked, summary()], "search_documents": search}
    return world.start().go()


@pytest.mark.parametrize("tier", Tier)
def test_a_search_whose_eighth_question_hits_is_let_go_on(tier):
    world = built_in(SEARCHES, tier, found=SEARCHES[-1:])
    assert (world.end.state, world.reactions, len(world.executed)) == (RunState.COMPLETED, [], 8)


@pytest.mark.parametrize("tier", Tier)
def test_paraphrases_for_the_built_in_search_are_stopped_by_the_loop_detector_first(tier):
    world = built_in([f"{PARAPHRASED} {word}" for word in WORDS], tier)
    assert world.of(ev.ReactionDecided)[0].cause.evidence.details["detector"] == "near_identical_calls"
    assert len(world.executed) == 2


def test_without_the_loop_detector_paraphrases_for_the_built_in_search_end_with_the_sixth():
    off = {"detectors": ["same_call_in_a_row"]}
    assert requests_until_trip(built_in([f"{PARAPHRASED} {word}" for word in WORDS], loop_detector=off)) == 6


def test_other_questions_that_all_find_nothing_are_too_many_with_the_twelfth():
    more = ("cost of glass", "salt in bread", "when ships sank", "birds nearby", "school for boys", "a wedding")
    world = built_in((*SEARCHES, *more))
    assert requests_until_trip(world) == 12
    assert world.of(ev.ReactionDecided)[0].cause.message == (
        "agent worker called search_documents in 12 turns in a row with other arguments each time, "
        "and each came to the same result (limit 12)"
    )


def test_a_number_in_the_question_makes_it_another_question():
    assert requests_until_trip(built_in([f"is there anything on {n}" for n in range(30)])) == 12


def test_calculations_with_one_value_are_too_many():
    asked = [asks(call("calculate", expression=f"{n} - {n}")) for n in range(20)]
    world = World(lone(tools=("calculate",)), {})
    world.script = {"worker": asked, "calculate": lambda c: gives(calculate(world.executed[-1][1]["expression"]))}
    assert requests_until_trip(world.start().go()) == 12


@pytest.mark.parametrize("tier", Tier)
@pytest.mark.parametrize("says", ["ok", "its id too"])
def test_a_scan_of_twenty_ids_that_all_answer_ok_is_let_go_on(tier, says):
    world = World(lone(), {}, tier=tier)
    look = {"ok": lambda c: gives("ok"), "its id too": lambda c: gives({**world.executed[-1][1], "status": "ok"})}
    world.script = {"worker": [*[asks(call(id=n)) for n in range(20)], summary()], "look": look[says]}
    world.start().go()
    assert (world.end.state, world.reactions, len(world.executed)) == (RunState.COMPLETED, [], 20)


def test_a_scan_that_comes_to_the_same_for_ever_is_too_many_with_the_twenty_fourth():
    world = ran(lone(limits={"turns": 60}), {"worker": scan(), "look": gives("ok")})
    assert requests_until_trip(world) == 24
    assert "with other numbers or ids each time" in world.of(ev.ReactionDecided)[0].cause.message


def scan():
    ids = itertools.count()
    return lambda command: asks(call(id=next(ids)))


def test_who_stops_scanning_and_asks_the_same_again_is_stopped_then():
    ids = [asks(call(id=n)) for n in range(8)]
    world = ran(lone(), {"worker": [*ids, *[asks(question(word)) for word in WORDS]], "look": gives("ok")})
    assert requests_until_trip(world) == 12, "of its last six turns most ask alike"
    assert "in 6 turns in a row with like arguments" in world.of(ev.ReactionDecided)[0].cause.message
