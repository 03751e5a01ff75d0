"""The default decision table, cell by cell as docs/specification/decision-table.md spells it, and the rules that every ladder keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from fabric.core.spec.policies.decision_table import (
    BOUNDED_ONLY,
    COUNTED_PER,
    DEFAULT_TABLE,
    GRAVITY,
    Accompaniment,
    CountScope,
    Ladder,
    Reaction,
    Rung,
    table_digest,
    table_with,
)
from fabric.core.values.taxonomy import FailureType, Tier

PAGE = Path(__file__).resolve().parents[5] / "docs" / "specification" / "decision-table.md"
DOCUMENT = [
    line.strip("| ").split(" | ")
    for line in PAGE.read_text().partition("| failure type |")[2].partition("\n\n")[0].splitlines()[2:]
]
"""The rows of the document: a failure type and the cells of its three tiers."""

WORDS = {
    "fallback model": Reaction.FALLBACK_MODEL,
    "cheaper model": Reaction.CHEAPER_MODEL,
    "wait for breaker": Reaction.WAIT_FOR_BREAKER,
    "safe fallback": Reaction.SAFE_FALLBACK,
    "replan with critic": Reaction.REPLAN,
    "escalate to finance": Reaction.ESCALATE,
    "escalate for edit": Reaction.ESCALATE,
}


def read(cell: str) -> list[tuple[Reaction, int | None, set[str]]]:
    """A cell of the document as (reaction, times, what goes with it)."""
    rungs = []
    for text in cell.split(","):
        words = text.partition("(")[0].strip()
        words, _, times = words.partition(" x")
        parts = [part.strip() for part in words.split("+")]
        accompanying = {part for part in parts if part in set(Accompaniment)}
        (reaction,) = [part for part in parts if part not in set(Accompaniment)]
        rungs.append((WORDS.get(reaction) or Reaction(reaction), int(times) if times else None, accompanying))
    return rungs


CELLS = [
    (failure, tier, cell)
    for failure, line in zip(FailureType, DOCUMENT, strict=True)
    for tier, cell in zip(Tier, line[1:], strict=True)
]


def test_the_table_has_eight_rows_and_three_columns():
    assert set(DEFAULT_TABLE) == {(failure, tier) for failure in FailureType for tier in Tier}
    assert len(DEFAULT_TABLE) == 24


@pytest.mark.parametrize(("failure", "tier", "cell"), CELLS, ids=lambda value: str(value).strip()[:25])
def test_each_cell_is_what_the_document_says(failure, tier, cell):
    ladder = DEFAULT_TABLE[failure, tier]
    assert [(rung.reaction, rung.times, {str(one) for one in rung.with_}) for rung in ladder.rungs] == read(cell)
    assert ladder.deviation == ""


def test_the_roles_and_the_critic_that_the_document_names():
    roles = {
        key: rung.role for key, ladder in DEFAULT_TABLE.items() for rung in ladder.rungs if rung.role != "reviewer"
    }
    assert roles == {
        (FailureType.COST_OVERRUN, Tier.HIGH_STAKES): "finance",
        (FailureType.UNSAFE_OUTPUT, Tier.HIGH_STAKES): "safety",
    }
    assert [key for key, ladder in DEFAULT_TABLE.items() if any(rung.critic for rung in ladder.rungs)] == [
        (FailureType.PLAN_MALFORMED, Tier.BATCH)
    ]
    assert [key for key, ladder in DEFAULT_TABLE.items() if any(rung.poll for rung in ladder.rungs)] == [
        (FailureType.TOOL_LOOP, Tier.INTERACTIVE),
        (FailureType.TOOL_LOOP, Tier.BATCH),
    ]


def test_high_stakes_never_injects_and_never_falls_back():
    reactions = {
        rung.reaction for (_, tier), cell in DEFAULT_TABLE.items() if tier is Tier.HIGH_STAKES for rung in cell.rungs
    }
    assert reactions == {Reaction.ESCALATE, Reaction.RETRY, Reaction.ABORT}


# -- order and counting ----------------------------------------------------------------------------------------------


def test_the_order_of_gravity_is_total_and_the_documents():
    assert set(GRAVITY) == set(Reaction)
    said = [
        "halt",
        "abort",
        "escalate",
        "surface",
        "terminate",
        "replan",
        "fallback_model",
        "wait_for_breaker",
        "inject",
        "retry",
    ]
    assert [reaction for reaction in GRAVITY if reaction in said] == said
    assert abs(GRAVITY.index(Reaction.FALLBACK_MODEL) - GRAVITY.index(Reaction.CHEAPER_MODEL)) == 1


def test_every_reaction_is_counted_against_something():
    assert set(COUNTED_PER) == set(Reaction)
    per = {scope: {r for r, counted in COUNTED_PER.items() if counted is scope} for scope in CountScope}
    assert per[CountScope.CALL] == {
        *(Reaction.RETRY, Reaction.WAIT_FOR_BREAKER, Reaction.FALLBACK_MODEL, Reaction.CHEAPER_MODEL),
    }
    assert per[CountScope.STEP] == {Reaction.INJECT, Reaction.TERMINATE}
    assert Reaction.REPLAN in per[CountScope.STAGE]
    # Handover is counted by stage as replan is, and like it leaves the run going on.
    assert set(Reaction) - per[CountScope.UNBOUNDED] - {Reaction.TERMINATE} == BOUNDED_ONLY


# -- ladders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", DEFAULT_TABLE.values())
def test_only_the_last_rung_is_unbounded(cell):
    assert all(rung.times is not None for rung in cell.rungs[:-1])
    assert cell.rungs[-1].times is None


def ladder(*rungs):
    return Ladder.model_validate({"rungs": [dict(zip(("reaction", "times"), rung, strict=False)) for rung in rungs]})


@pytest.mark.parametrize(
    ("rungs", "message"),
    [
        ([("retry",), ("abort",)], "only the last rung may be unbounded: give times to the ones before it"),
        (
            [("retry", 1), ("abort", 1)],
            "the last rung must be unbounded, so that the ladder always ends: leave its times out",
        ),
        ([("abort", 1), ("retry",)], "retry does not end anything, so it cannot be the last rung"),
        ([("replan",)], "replan does not end anything, so it cannot be the last rung"),
        ([], "at least 1"),
        ([("retry", 0), ("abort",)], "greater than or equal to 1"),
        ([("retry", 21), ("abort",)], "less than or equal to 20"),
        ([("retry", 1)] * 8 + [("abort",)], "at most 8"),
        ([("panic",)], "'halt', 'abort', 'escalate'"),
    ],
)
def test_a_ladder_that_could_not_end_or_does_not_exist_is_refused_with_a_sentence(rungs, message):
    with pytest.raises(ValidationError, match=message):
        ladder(*rungs)


@pytest.mark.parametrize("rung", [{"reaction": "abort", "times": 1}, {"reaction": "escalate"}])
def test_only_a_bounded_review_is_about_a_poll(rung):
    with pytest.raises(ValidationError, match="poll goes with escalate and times"):
        Rung.model_validate({**rung, "poll": True})


def test_a_review_about_a_poll_is_counted_by_step_and_any_other_as_ever():
    poll = Rung(reaction=Reaction.ESCALATE, times=1, poll=True)
    assert (poll.counted_per, Rung(reaction=Reaction.ESCALATE, times=1).counted_per) == (
        CountScope.STEP,
        CountScope.UNBOUNDED,
    )


@pytest.mark.parametrize("reaction", sorted(BOUNDED_ONLY))
def test_what_goes_on_cannot_come_last(reaction):
    with pytest.raises(ValidationError, match="cannot be the last rung"):
        ladder((reaction,))


@pytest.mark.parametrize("reaction", sorted(set(Reaction) - BOUNDED_ONLY))
def test_what_ends_something_may_come_last(reaction):
    assert ladder((reaction,)).rungs[-1] == Rung(reaction=reaction)


# -- a fabric's own cells --------------------------------------------------------------------------------------------


def test_a_fabrics_cell_replaces_one_and_leaves_the_others():
    own = ladder(("abort",))
    table = table_with({FailureType.TOOL_LOOP: {Tier.BATCH: own}})
    assert table[FailureType.TOOL_LOOP, Tier.BATCH] is own
    assert {key for key in table if table[key] != DEFAULT_TABLE[key]} == {(FailureType.TOOL_LOOP, Tier.BATCH)}


def test_the_version_of_a_table_follows_from_its_cells_alone():
    assert table_digest(table_with({})) == table_digest(DEFAULT_TABLE)
    assert table_digest(dict(reversed(DEFAULT_TABLE.items()))) == table_digest(DEFAULT_TABLE)
    assert table_digest(table_with({FailureType.TOOL_LOOP: {Tier.BATCH: ladder(("abort",))}})) != table_digest(
        DEFAULT_TABLE
    )
