"""Scenarios are read with every mistake told at its place, and written so that they read back the same."""

from __future__ import annotations

import tomllib

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.faults.catalogue import FaultRefused
from simulator.faults.fault import Calls
from simulator.scenarios.spec.scenario import Scenario, parse_overrides
from simulator.scenarios.spec.toml import dump, parse_scenario, read_file
from simulator.texts.problems import Unreadable
from simulator.texts.toml import BYTES_MAX, Lines

GOOD = '''name = "storm"
title = "A storm of 429"
description = """
Two lines
of words."""
failure = "provider_failure"
tiers = ["batch", "interactive"]
seed = 7

[workload]
request = "What does it say?"
documents = [{ name = "a.md", text = "It is # not a comment ]" }]

[parameters]
times = 4
delay_s = 2.5
who = "finalizer"

[[disturbance]]
fault = "rate_limit"
role = "${who}"
times = "${times}"

[[disturbance]]
fault = "slow"
agent = "the-${who}"
delay_s = "${delay_s}"

[steady_state]
title = "It ends well"

[[steady_state.probes]]
probe = "state"
tolerance = "completed"

[[steady_state.probes]]
probe = "cost_usd_micros"
tolerance = { type = "range", range = [0, 1_000_000] }

[abort]
cost_usd_micros = 2_000_000
virtual_s = 400_000
'''


def test_a_scenario_is_what_was_written():
    found = parse_scenario(GOOD)
    assert (found.name, found.failure, found.seed) == ("storm", FailureType.PROVIDER, 7)
    assert found.tiers == (Tier.BATCH, Tier.INTERACTIVE)
    assert found.workload.documents[0].text == "It is # not a comment ]"
    limit, slow = found.disturbances()
    assert (limit.fault.name, limit.parameters) == ("rate_limit", Calls(role="finalizer", times=4))
    assert slow.parameters.model_dump(exclude_unset=True) == {"agent": "the-finalizer", "delay_s": 2.5}
    assert [one.tolerance.write_value() for one in found.steady_state.probes] == [
        "completed",
        {"type": "range", "range": [0, 1_000_000]},
    ]
    assert found.abort.virtual_s == 400_000


def test_what_is_not_said_has_a_default():
    found = parse_scenario(
        'name = "a"\ntitle = "A"\ndescription = "B"\nfailure = "none"\n[[disturbance]]\nfault = "hang"'
    )
    assert (found.failure, found.tiers, found.seed) == (None, tuple(Tier), 1)
    assert (found.parameters, found.steady_state.probes) == ({}, ())


EXPECT = """
[[expect]]
probe = "state"
tolerance = "completed"

[[expect]]
probe = "cost_usd_micros"
tolerance = { type = "range", range = [0, 5_000] }
"""


@pytest.mark.parametrize("text", [GOOD, GOOD + EXPECT])
def test_a_scenario_reads_back_as_it_was_written(text):
    found = parse_scenario(text)
    assert parse_scenario(dump(found)) == found
    assert ("[[expect]]" in dump(found)) == ("[[expect]]" in text)


def test_mistakes_of_an_expectation_have_their_line():
    wrong = EXPECT.replace('probe = "state"', 'probe = "states"').replace("[0, 5_000]", "[0]")
    with pytest.raises(Unreadable) as caught:
        parse_scenario(GOOD + wrong, origin="a.toml")
    assert [one.partition(": ")[0] for one in caught.value.told] == [
        "a.toml, line 45, expect.0.probe",
        "a.toml, line 50, expect.1.tolerance.range",
    ]


def test_parameters_are_overridden_by_their_type():
    found = parse_scenario(GOOD)
    limit, slow = found.disturbances(parse_overrides(found, ["times=9", "delay_s=3", "who=critic"]))
    assert limit.parameters == Calls(role="critic", times=9)
    assert slow.parameters.model_dump()["delay_s"] == 3.0


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("time=9", "parameters.time: there is no such parameter; did you mean 'times'?"),
        ("times=many", "parameters.times: 'many' is not a whole number, as its default 4 is"),
        ("delay_s=x", "parameters.delay_s: 'x' is not a number, as its default 2.5 is"),
        ("times", "parameters: 'times' is no parameter; write name=value"),
    ],
)
def test_a_wrong_override_is_refused(word, said):
    with pytest.raises(FaultRefused) as caught:
        parse_overrides(parse_scenario(GOOD), [word])
    assert str(caught.value) == said


def test_an_override_is_held_to_the_fault_as_well():
    with pytest.raises(FaultRefused, match=r"disturbance.0.times: 0 is too small; at least 1"):
        parse_scenario(GOOD).disturbances({"times": 0})


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("seed = 7", 'seed = "seven"', ["a.toml, line 8, seed: 'seven' is no whole number"]),
        ("seed = 7", "seed = 7\nseeds = 8", ["a.toml, line 9, seeds: there is no such key; did you mean 'seed'?"]),
        ("seed = 7", "seed = ", ["a.toml, line 8, column 8: this is no TOML: invalid value"]),
        ('"rate_limit"', '"rate_limits"', ["a.toml, line 20, disturbance.0.fault: there is no fault 'rate_limits'; did you mean 'rate_limit'?"]),
        ('"${who}"', '"${whom}"', ["a.toml, line 21, disturbance.0.role: there is no parameter 'whom'; did you mean 'who'?"]),
        ('times = "${times}"', 'time = "${times}"', ["a.toml, line 22, disturbance.0.time: there is no such key; did you mean 'times'?"]),
        ("times = 4", 'times = "4"', ["a.toml, line 22, disturbance.0.times: '4' is no whole number"]),
        ("times = 4", "times = [4]", ["a.toml, line 15, parameters.times: a list is no text, number, true or false"]),
        ("times = 4", "times = 4\nother = 1", ["a.toml, line 16, parameters.other: no disturbance uses it; take it out, or write ${other} where it belongs"]),
        ("times = 4", "times = 4\nOther = 1", ["a.toml, line 16, parameters.Other: 'Other' is no name; use lower-case letters, digits and _, a letter first"]),
        ('probe = "state"', 'probe = "states"', ["a.toml, line 33, steady_state.probes.0.probe: there is no probe 'states'; did you mean 'state'?"]),
        ("[0, 1_000_000]", "[0]", ["a.toml, line 38, steady_state.probes.1.tolerance.range: a range is a list of two numbers, such as [4, 8.5]"]),
        ('type = "range"', 'type = "rage"', ["a.toml, line 38, steady_state.probes.1.tolerance.type: there is no tolerance of type 'rage'; did you mean 'range'?"]),
        ('tolerance = "completed"', "", ["a.toml, line 32, steady_state.probes.0.tolerance: is missing; give it a value"]),
        ("virtual_s = 400_000", "virtual_s = 0", ["a.toml, line 42, abort.virtual_s: 0 is too small; it has to be more than 0"]),
        ('"provider_failure"', '"provider"', ["a.toml, line 6, failure: 'provider' is none of infinite_tool_loop, sub_agent_deadlock, cost_overrun, provider_failure, schema_grounding_fail, plan_malformed, semantic_no_progress, unsafe_output; did you mean 'provider_failure'?"]),
        ('["batch", "interactive"]', '["batch", "fast"]', ["a.toml, line 7, tiers.1: 'fast' is none of interactive, batch, high_stakes"]),
        ('["batch", "interactive"]', '["batch", "batch"]', ["a.toml, line 7, tiers: a tier is named twice; name each once"]),
        ('name = "storm"', 'name = "The Storm"', ["a.toml, line 1, name: 'The Storm' is no name; use lower-case letters, digits and -, a letter first"]),
        ('request = "What', 'requests = "What', ["a.toml, line 11, workload.requests: there is no such key; did you mean 'request'?"]),
        ('{ name = "a.md", text', '{ name = "a.md", txt', ["a.toml, line 12, workload.documents.0.text: is missing; give it a value", "a.toml, line 12, workload.documents.0.txt: there is no such key; did you mean 'text'?"]),
        ('fault = "slow"', "fault = 5", ["a.toml, line 25, disturbance.1.fault: 5 is no text; write it in quotes"]),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_file_line_and_path(old, new, told):
    assert GOOD.count(old) == 1
    with pytest.raises(Unreadable) as caught:
        parse_scenario(GOOD.replace(old, new), origin="a.toml")
    assert list(caught.value.told) == told


@pytest.mark.parametrize(("fault", "judged"), [("unavailible", True), ("explode", False), ("", False)])
def test_no_mistake_waits_until_another_one_is_gone(fault, judged):
    """A wrong role and a negative count are told beside an unknown fault; a value that another fault may have is not."""
    text = f'''name = "a"\ntitle = "A"\ndescription = "A."\n[[disturbance]]\nfault = "{fault}"\nrole = "nobody"\ntimes = -1
status = 7\nodd = 1\n[[disturbance]]\nfault = "slow"\ntimes = 0\ndelay_s = "${{no}}"\n[[disturbance]]\ntimes = 0\n'''
    with pytest.raises(Unreadable) as refused:
        parse_scenario(text)
    told = [one.split(":")[0] for one in refused.value.told]
    assert told == [
        "line 5, disturbance.0.fault",
        "line 6, disturbance.0.role",
        "line 7, disturbance.0.times",
        *["line 8, disturbance.0.status"] * judged,
        "line 12, disturbance.1.times",
        "line 13, disturbance.1.delay_s",
        "line 14, disturbance.2.fault",
        "line 15, disturbance.2.times",
    ]


def test_all_mistakes_are_told_at_once_in_the_order_of_their_lines():
    text = GOOD.replace("seed = 7", "seed = 7.5").replace('"slow"', '"slaw"').replace('"state"', '"stat"')
    with pytest.raises(Unreadable) as caught:
        parse_scenario(text)
    assert [told.partition(":")[0] for told in caught.value.told] == [
        "line 8, seed",
        "line 25, disturbance.1.fault",
        "line 33, steady_state.probes.0.probe",
    ]


@pytest.mark.parametrize("text", ["", "disturbance = 5", "[disturbance]", "steady_state = 5", "parameters = 5"])
def test_what_is_no_scenario_at_all_is_told(text):
    with pytest.raises(Unreadable, match=r"line 1, name: is missing; give it a value"):
        parse_scenario(text)


def test_a_scenario_that_is_too_long_is_refused():
    with pytest.raises(Unreadable, match="is longer than"):
        parse_scenario("#" * (BYTES_MAX + 1))


def test_a_file_that_is_no_utf_8_is_told(tmp_path):
    (tmp_path / "a.toml").write_bytes(b'name = "\xff"')
    with pytest.raises(Unreadable, match=r"a.toml: is no UTF-8 \(byte 9\)"):
        read_file(tmp_path / "a.toml")


def test_which_faults_keep_a_scenario_from_being_run_live_is_said():
    text = GOOD.replace('fault = "slow"\nagent = "the-${who}"', 'fault = "tool_slow"\ntool = "the-${who}"')
    assert parse_scenario(GOOD).only_virtual() == []
    assert [str(one) for one in parse_scenario(text).only_virtual()] == [
        "disturbance.1.fault: tool_slow cannot be injected live: a live drill stands in front of the model only, and tools are real"
    ]


@pytest.mark.parametrize(
    ("cost", "took", "why"),
    [
        (1_999_999, 399_999.5, ""),
        (2_000_000, 0, "it has cost 2000000 micro-dollars, and stops at 2000000"),
        (0, 400_000, "it has taken 400000 s, and stops at 400000 s"),
    ],
)
def test_a_drill_is_stopped_at_a_cost_and_after_a_time(cost, took, why):
    assert parse_scenario(GOOD).abort.explain_abort(cost, took) == why
    assert parse_scenario(GOOD.partition("[abort]")[0]).abort.explain_abort(cost, took) == ""


# -- lines -------------------------------------------------------------------------------------------------------------

ODD = """# a = 1
a.b = 1
a."c d" = '''
x = 1
[nothing]
'''
list = [ 1, # one
  [2, 3],
  { k = "]", l = [4,
    5] },
]

[[t]]
x = 1
[t.inner]
y = "[[t]]"

[[t]]  # another
[[t.many]]
z = 1
[[t.many]]
z = '#'
["q\\u0041"]
u = 2000-01-01
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 2),
        (("a", "b"), 2),
        (("a", "c d"), 3),
        (("list",), 7),
        (("list", 0), 7),
        (("list", 1), 8),
        (("list", 1, 1), 8),
        (("list", 2, "k"), 9),
        (("list", 2, "l", 1), 10),
        (("t",), 13),
        (("t", 0, "x"), 14),
        (("t", 0, "inner"), 15),
        (("t", 0, "inner", "y"), 16),
        (("t", 1), 18),
        (("t", 1, "many", 0, "z"), 20),
        (("t", 1, "many", 1), 21),
        (("t", 1, "many", 1, "z"), 22),
        (("qA", "u"), 24),
        (("t", 1, "nowhere", "at", "all"), 18),
        (("nowhere",), 1),
    ],
)
def test_a_value_is_found_on_its_line(path, line):
    assert tomllib.loads(ODD)
    assert Lines(ODD).line(path) == line


def test_a_scenario_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        parse_scenario(GOOD).seed = 5
    assert isinstance(parse_scenario(GOOD), Scenario)
