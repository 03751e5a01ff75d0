"""Experiments of chaostoolkit come in and go out, and what cannot be done here is said, each with its path."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from simulator.faults.fault import Calls
from simulator.scenarios.spec.chaostoolkit import OURS, VERSION, build_experiment, import_experiment
from simulator.scenarios.spec.collection import find_shipped, library
from simulator.scenarios.spec.journal import Journal, build_journal, read_journal
from simulator.scenarios.spec.probes import PROBES, Observed, check_probe, probe_output, read_tolerance
from simulator.scenarios.spec.scenario import SteadyProbe
from simulator.scenarios.spec.toml import dump, parse_scenario
from simulator.texts.problems import Unreadable


def ours(fault: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "action", "name": fault, "provider": {"type": OURS, "fault": fault, "arguments": arguments}}


FOREIGN = {
    "type": "action",
    "name": "terminate-one",
    "provider": {"type": "python", "module": "chaosk8s.pod.actions", "func": "terminate_pods"},
}
EXPERIMENT: dict[str, Any] = {
    "version": "1.0.0",
    "title": "Are our users impacted?",
    "description": "They should not be.",
    "contributions": {"reliability": "high", "security": "none"},
    "tags": ["models"],
    "configuration": {"times": 3, "base_url": "http://example.org"},
    "steady-state-hypothesis": {
        "title": "It is answered",
        "probes": [
            {
                "type": "probe",
                "name": "ends",
                "tolerance": ["completed", "waiting", "x"],
                "provider": {"type": OURS, "probe": "state"},
            }
        ],
    },
    "method": [ours("rate_limit", role="finalizer", times="${times}")],
    "rollbacks": [],
}


def brought(**changes: Any) -> Any:
    return import_experiment(json.dumps({**EXPERIMENT, **changes}), origin="e.json")


def left_out(**changes: Any) -> list[str]:
    unused = "e.json, configuration.base_url: no disturbance uses it, so it is left out"
    found = list(brought(**changes).left_out)
    assert unused in found
    return [one for one in found if one != unused]


def test_an_experiment_is_a_scenario():
    found = brought().scenario
    assert (found.name, found.title) == ("are-our-users-impacted", "Are our users impacted?")
    assert found.contributions == {"reliability": "high", "security": "none"}
    assert found.disturbances()[0].parameters == Calls(role="finalizer", times=3)
    assert found.steady_state.probes[0].tolerance == read_tolerance(["completed", "waiting", "x"])
    assert parse_scenario(dump(found)) == found


def test_what_is_expected_of_the_disturbed_run_goes_out_and_comes_back():
    probes = (SteadyProbe(probe="state", tolerance=read_tolerance("completed")),)
    one = brought().scenario.model_copy(update={"expect": probes})
    assert import_experiment(json.dumps(build_experiment(one))).scenario == one


@pytest.mark.parametrize("name", library())
def test_a_scenario_goes_out_and_comes_back(name):
    experiment = build_experiment(find_shipped(name))
    back = import_experiment(json.dumps(experiment))
    assert back.left_out == ()
    assert back.scenario == find_shipped(name)
    assert build_experiment(back.scenario) == experiment


def test_an_experiment_has_what_the_specification_asks_for():
    experiment = build_experiment(find_shipped("rate-limit-storm"))
    assert experiment["version"] == VERSION
    assert {"title", "description", "method", "rollbacks", "steady-state-hypothesis", "tags"} <= set(experiment)
    for activity in (*experiment["method"], *experiment["steady-state-hypothesis"]["probes"]):
        assert {"type", "name", "provider"} <= set(activity)
    assert all("tolerance" in probe for probe in experiment["steady-state-hypothesis"]["probes"])


@pytest.mark.parametrize(
    ("changes", "sentences"),
    [
        (
            {"controls": [{"name": "tracing", "provider": {"type": "python", "module": "m"}}]},
            ["e.json, controls: controls are not applied here, and are left out"],
        ),
        (
            {"secrets": {"faas": {"token": "PLEASE-HIDE-ME"}}},
            ["e.json, secrets: no secret is passed to anything here, and none is kept"],
        ),
        ({"runtime": {}}, ["e.json, runtime: is not known here, and is left out"]),
        ({"extensions": [{"name": "other"}]}, ["e.json, extensions.0: extension 'other' is not known here"]),
        (
            {"rollbacks": [FOREIGN]},
            [
                "e.json, rollbacks.0: 'terminate-one' is left out: every disturbance ends with its drill, so there is nothing to roll back"
            ],
        ),
        (
            {"method": [FOREIGN, *EXPERIMENT["method"], {"ref": "ends"}]},
            [
                "e.json, method.0.provider.type: 'terminate-one' is of provider type 'python', which cannot be run here; only fabric-flow can",
                "e.json, method.2: refers to 'ends', which is asked before and after only",
            ],
        ),
        (
            {"method": [{**EXPERIMENT["method"][0], "background": True, "pauses": {"after": 5}, "controls": []}]},
            [
                "e.json, method.0.background: disturbances stand from the beginning and do not wait for each other, so this changes nothing",
                "e.json, method.0.pauses: nothing waits between disturbances; say from when on each strikes in its own arguments",
                "e.json, method.0.controls: controls are not applied here, and are left out",
            ],
        ),
        (
            {"method": [*EXPERIMENT["method"], {**EXPERIMENT["steady-state-hypothesis"]["probes"][0]}]},
            ["e.json, method.1: is a probe, and probes are asked before and after the method only"],
        ),
        (
            {"steady-state-hypothesis": {"title": "T", "probes": [{**FOREIGN, "tolerance": 200}], "controls": []}},
            [
                "e.json, steady-state-hypothesis.controls: controls are not applied here, and are left out",
                "e.json, steady-state-hypothesis.probes.0.provider.type: 'terminate-one' is of provider type 'python', which cannot be run here; only fabric-flow can",
            ],
        ),
    ],
)
def test_what_cannot_be_done_is_said_with_its_path(changes, sentences):
    assert left_out(**changes) == sentences


def test_no_secret_is_kept_or_told():
    found = brought(secrets={"faas": {"token": "PLEASE-HIDE-ME"}})
    assert "PLEASE-HIDE-ME" not in f"{found} {dump(found.scenario)}"


def test_an_experiment_of_others_alone_leaves_nothing_to_run():
    found = brought(method=[FOREIGN])
    assert found.scenario is None
    assert found.left_out[-1] == "e.json, method: has no action of provider type fabric-flow, so nothing is left to run"


def test_a_looked_up_value_is_its_default_or_a_mistake():
    found = brought(configuration={"times": {"type": "env", "key": "TIMES", "default": 2}})
    assert found.scenario.parameters == {"times": 2}
    assert found.left_out == ("e.json, configuration.times: is not looked up here; its default is taken",)
    with pytest.raises(Unreadable, match=r"configuration.times: is not looked up here \('env'\), and has no default"):
        brought(configuration={"times": {"type": "env", "key": "TIMES"}})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"method": 5}, "e.json, method: 5 is no list"),
        (
            {"method": [ours("rate_limits")], "configuration": {}},
            "e.json, method.0.provider.fault: there is no fault 'rate_limits'; did you mean 'rate_limit'?",
        ),
        (
            {"method": [FOREIGN, ours("rate_limit", tims=3)], "configuration": {}},
            "e.json, method.1.provider.arguments.tims: there is no such key; did you mean 'times'?",
        ),
        (
            {"configuration": {"times": [3]}},
            "e.json, configuration.times: a list is no text, number, true or false",
        ),
        (
            {"configuration": {}},
            "e.json, method.0.provider.arguments.times: there is no parameter 'times'; there are none",
        ),
        (
            {"contributions": {"reliability": "much"}},
            "e.json, contributions.reliability: 'much' is none of high, medium, low, none",
        ),
        ({"title": ""}, "e.json, title: is empty; give it a value"),
        ({"tags": [5]}, "e.json, tags.0: 5 is no text; write it in quotes"),
        (
            {"steady-state-hypothesis": {"title": "T", "probes": [{"name": "p", "provider": {"type": OURS, "probe": "stat"}, "tolerance": {"type": "rang"}}]}},
            "e.json, steady-state-hypothesis.probes.0.provider.probe: there is no probe 'stat'; did you mean 'state'?\ne.json, steady-state-hypothesis.probes.0.tolerance.type: there is no tolerance of type 'rang'; did you mean 'range'?",
        ),
        (
            {"extensions": [{"name": "x"}, {"name": OURS, "scenario": {"seed": "one"}}]},
            "e.json, extensions.1.scenario.seed: 'one' is no whole number",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_path(changes, told):
    with pytest.raises(Unreadable) as caught:
        brought(**changes)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"title": }', "e.json, line 1, column 11: this is no JSON: expecting value"),
        ("[]", "e.json, a list is no experiment, which is an object"),
        ("[" * 100_000, "e.json, is nested too deeply; make it flatter"),
        ('{"title": "T", "description": "D"}', "e.json, method: is missing; give it a value"),
    ],
)
def test_what_is_no_experiment_is_told(text, told):
    with pytest.raises(Unreadable) as caught:
        import_experiment(text, origin="e.json")
    assert caught.value.told[0] == told


# -- the journal -----------------------------------------------------------------------------------------------------

SEEN: dict[str, Any] = {
    **dict.fromkeys(("cost_usd_micros", "duration_s", "model_calls", "tool_calls", "reviews", "replans"), 0),
    "state": "completed",
    "chain": "",
    "causes": "",
    "answer": "",
    "citations": [],
    "violations": 0,
    "struck": 0,
}
START = datetime(2026, 1, 1, tzinfo=UTC)
END = START + timedelta(seconds=2.5)


def test_a_probe_is_a_field_of_what_was_observed():
    observed = Observed(**SEEN)
    assert list(PROBES) == list(Observed.__dataclass_fields__)
    assert {name: probe_output(observed, name) for name in PROBES} == SEEN
    with pytest.raises(KeyError):
        probe_output(observed, "nothing")


def test_a_probe_may_be_asked_about_another_one_s_word():
    other = {"type": "probe", "name": "same", "provider": {"type": OURS, "probe": "violations"}}
    assert check_probe(Observed(**SEEN), "reviews", read_tolerance(other)).met
    assert not check_probe(Observed(**{**SEEN, "reviews": 1}), "reviews", read_tolerance(other)).met


def recorded(before: str = "completed", after: str | None = "completed", **more: Any) -> Journal:
    scenario = find_shipped("rate-limit-storm")
    first = scenario.steady_state.check(Observed(**{**SEEN, "state": before}))
    last = None if after is None else scenario.steady_state.check(Observed(**{**SEEN, "state": after}))
    return build_journal(scenario, start=START, end=END, before=first, after=last, struck={"rate_limit": 3}, **more)


@pytest.mark.parametrize(
    ("given", "status", "deviated"),
    [
        ({}, "completed", False),
        ({"after": "failed"}, "failed", True),
        ({"before": "failed", "after": None}, "failed", False),
        ({"after": None, "ended": "interrupted"}, "interrupted", False),
        ({"after": "failed", "ended": "aborted"}, "aborted", True),
    ],
)
def test_a_record_says_how_it_ended_in_the_same_words(given, status, deviated):
    found = recorded(**given)
    assert (found.status, found.deviated) == (status, deviated)
    assert (found.steady_states.after is None) == ("after" in given and given["after"] is None)


def test_a_record_has_everything():
    found = json.loads(recorded(after="failed").write_json())
    assert found["experiment"] == build_experiment(find_shipped("rate-limit-storm"))
    assert (found["start"], found["end"], found["duration"]) == (
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:02.500000Z",
        2.5,
    )
    assert found["steady_states"]["before"]["steady_state_met"] is True
    after = found["steady_states"]["after"]
    assert after["steady_state_met"] is False
    [probe] = after["probes"]
    assert (probe["output"], probe["tolerance_met"], probe["status"]) == ("failed", False, "succeeded")
    assert probe["exception"] == ["'failed' is not 'completed'"]
    assert [ran["output"] for ran in found["run"]] == [{"struck": 3}]
    assert found["rollbacks"] == []


@pytest.mark.parametrize("given", [{}, {"after": "failed"}, {"before": "failed", "after": None}])
def test_a_record_reads_back_as_it_was_written(given):
    text = recorded(**given).write_json()
    assert read_journal(text) == recorded(**given)
    assert read_journal(text).write_json() == text


OTHERS = {
    "chaoslib-version": "1.40.0",
    "platform": "Linux",
    "node": "n1",
    "experiment": {"title": "T"},
    "start": "2024-05-01T10:00:00.123456",
    "status": "interrupted",
    "deviated": False,
    "steady_states": {"before": {"steady_state_met": True, "probes": []}, "after": None, "during": []},
    "run": [
        {
            "activity": {"type": "action", "name": "a"},
            "output": None,
            "start": "2024-05-01T10:00:00+00:00",
            "status": "failed",
            "exception": ["Traceback"],
            "end": "2024-05-01T10:00:01Z",
            "duration": 1,
        }
    ],
    "rollbacks": [],
    "end": "2024-05-01T12:00:03.123456+02:00",
    "duration": 3.0,
}


def test_a_record_of_the_tool_itself_is_read_and_kept_whole():
    found = read_journal(json.dumps(OTHERS))
    assert (found.status, found.start.tzinfo) == ("interrupted", UTC)
    again = json.loads(found.write_json())
    assert again["chaoslib-version"] == "1.40.0"
    assert again["end"] == "2024-05-01T10:00:03.123456Z"
    assert again["steady_states"] == OTHERS["steady_states"]
    assert again.keys() == OTHERS.keys()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"status": "done"}, "j, status: 'done' is none of completed, failed, aborted, interrupted"),
        ({"start": "soon"}, "j, start: 'soon' is no time; write one like 2026-01-01T00:00:00Z"),
        ({"duration": -1}, "j, duration: -1 is too small; at least 0"),
        ({"deviated": "no"}, "j, deviated: 'no' is neither true nor false"),
    ],
)
def test_a_record_that_cannot_be_read_is_told(changes, told):
    with pytest.raises(Unreadable) as caught:
        read_journal(json.dumps({**OTHERS, **changes}), origin="j")
    assert str(caught.value) == told
