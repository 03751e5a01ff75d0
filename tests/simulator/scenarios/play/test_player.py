"""Scenarios played from the steady state before to the one after: what they show of the default table, and what each verdict rests on."""

from __future__ import annotations

import json

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.drills.fabrics import default_table
from simulator.faults.catalogue import FaultRefused
from simulator.rules.decisions.checks import DECISION_PLANTS
from simulator.scenarios.play.player import Played, play
from simulator.scenarios.spec.collection import find_shipped, library
from simulator.scenarios.spec.scenario import Scenario
from simulator.scenarios.spec.toml import parse_scenario
from tests.simulator.scenarios.peers import fabric_for

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES
PROBE = '\n[[steady_state.probes]]\nprobe = "state"\ntolerance = "completed"\n'


def scenario(rest: str, *, failure: str = "provider_failure", probes: str = PROBE) -> Scenario:
    named = f'failure = "{failure}"\n' if failure else ""
    return parse_scenario(f'name = "mine"\ntitle = "Mine"\ndescription = "For a test."\n{named}{rest}{probes}')


DOWN = '[[disturbance]]\nfault = "unavailable"\nrole = "finalizer"\n'


@pytest.mark.parametrize("name", library())
def test_every_shipped_scenario_holds_in_the_default_table(name):
    one = find_shipped(name)
    for tier in one.tiers:
        found = play(fabric_for(one), one, tier)
        assert (found.verdict, found.why) == ("pass", ""), (tier, found)
        assert all(line.same for line in found.lines)
        assert all(one.met for one in (*found.before, *found.after))


def test_what_was_expected_and_what_was_observed_stand_beside_each_other():
    found = play(default_table(), scenario(DOWN), HIGH)
    assert [line.observed for line in found.lines] == [
        f"provider_failure: {reaction}" for reaction in ("retry", "retry", "escalate")
    ]
    assert (found.expected_decisions.count(">"), found.observed_chain) == (2, "retry > retry > escalate > aborted")
    assert found.struck == {"unavailable": 3}


def deviating(found: Played) -> str:
    assert found.verdict == "deviated", found
    return found.why


def test_a_reaction_that_is_none_of_the_table_s_is_a_deviation():
    """An engine that writes down another rung than the one that it goes."""
    with DECISION_PLANTS["wrong_rung"]():
        found = play(default_table(), scenario(DOWN), HIGH)
    assert found.verdict == "error", "an invariant finds it first"
    assert found.why.startswith("decision_derives: ")
    assert not all(line.same for line in found.lines)


def test_a_steady_state_that_never_held_is_an_error_and_nothing_is_disturbed():
    probes = '\n[[steady_state.probes]]\nprobe = "state"\ntolerance = "failed"\n'
    found = play(default_table(), scenario(DOWN, probes=probes), FAST)
    assert (found.verdict, found.observed_chain, dict(found.struck)) == ("error", "not drilled", {})
    assert (
        found.why == "the steady state does not hold before anything is disturbed: state: 'completed' is not 'failed'"
    )
    assert found.journal().status == "aborted"


def test_a_scenario_that_strikes_nothing_has_shown_nothing():
    never = '[[disturbance]]\nfault = "unavailable"\nrole = "finalizer"\nfrom_call = 99\n'
    found = play(default_table(), scenario(never), FAST)
    assert (found.verdict, found.why) == ("unknown", "nothing was struck: the run made no such call")


EXPECT = '\n[[expect]]\nprobe = "state"\ntolerance = "{state}"\n'


def test_what_is_expected_of_the_disturbed_run_is_judged():
    found = play(default_table(), scenario(DOWN + EXPECT.format(state="completed")), HIGH)
    assert deviating(found) == (
        "the disturbed run did not do what the scenario expects: state: 'aborted' is not 'completed'"
    )
    found = play(default_table(), scenario(DOWN + EXPECT.format(state="aborted")), HIGH)
    assert (found.verdict, found.during.state) == ("pass", "aborted"), "its steady state is another state"


def test_an_abort_condition_ends_it_as_aborted():
    found = play(default_table(), scenario(f"{DOWN}[abort]\nvirtual_s = 0.1\n"), FAST)
    assert (found.verdict, found.aborted, found.journal().status) == ("error", True, "aborted")
    assert found.why.startswith("aborted: it has taken ")


def test_a_failure_of_another_row_than_it_names_is_a_deviation():
    why = deviating(play(default_table(), scenario(DOWN, failure="unsafe_output"), FAST))
    assert why == (
        "the run met another row of the table than the scenario names: "
        "it names unsafe output, and the first decision was provider failure: retry"
    )


def test_the_record_is_chaostoolkit_s():
    record = json.loads(play(default_table(), find_shipped("rate-limit-storm"), BATCH).journal().write_json())
    assert (record["status"], record["deviated"]) == ("completed", False)
    assert record["steady_states"]["before"]["steady_state_met"] is True
    assert record["steady_states"]["after"]["steady_state_met"] is True
    assert record["run"][0]["output"]["struck"] > 0


def test_the_same_seed_is_the_same_drill():
    once, again = (play(default_table(), find_shipped("provider-outage"), FAST, seed=9) for _ in range(2))
    assert (once.during, once.lines, once.struck) == (again.during, again.lines, again.struck)


def test_parameters_are_replaced_and_refused():
    one = find_shipped("rate-limit-then-healthy")
    assert one.parameters
    with pytest.raises(FaultRefused, match="there is no such parameter"):
        play(default_table(), one, FAST, overrides={"nothing": 1})


@pytest.mark.parametrize("failure", FailureType)
def test_each_failure_type_has_a_scenario(failure):
    assert any(one.failure is failure for one in library().values())
