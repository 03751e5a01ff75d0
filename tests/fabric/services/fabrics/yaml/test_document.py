"""FabricSpec in YAML: errors with their place, and a round trip that changes nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.core.spec.fabric import FabricSpec
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.document import fabric_dump, fabric_read
from tests.fabric.services.world import SAMPLE_NAMES, SMALL, sample
from tests.sets import many


def refused(text: str, origin: str = "") -> Refused:
    with pytest.raises(Refused) as caught:
        fabric_read(text, origin=origin)
    return caught.value


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_fabric_written_and_read_again_is_the_same(name):
    spec = fabric_read(sample(name)).spec
    text = fabric_dump(spec)
    again = fabric_read(text).spec
    assert again == spec
    assert again.digest() == spec.digest()
    assert fabric_dump(again) == text


def test_what_an_author_need_not_write_is_written_out():
    text = fabric_dump(fabric_read(SMALL).spec)
    assert "hops: 5" in text
    assert "identical_threshold: 3" in text


def test_accompaniments_go_by_the_name_an_author_writes():
    cell = "decision_table:\n  unsafe_output:\n    batch: {rungs: [{reaction: halt, with: [block]}]}\n"
    spec = fabric_read(SMALL + cell).spec
    text = fabric_dump(spec)
    assert "with:" in text
    assert "with_" not in text
    assert fabric_read(text).spec == spec


@pytest.mark.parametrize(
    "layers", [{}, {"preset": "flow"}, {"preset": "fabro", "max_retries": 2, "deviation": "Agreed."}]
)
def test_retry_layers_written_out_read_back_in_force_or_not(layers):
    tree = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    tree["policy"]["retry_layers"] = layers
    spec = FabricSpec.model_validate(tree)
    text = fabric_dump(spec)
    assert "retry_target" not in text, "none was named"
    assert "edges: []" in text
    assert fabric_read(text).spec.digest() == spec.digest()


def test_equal_specs_give_equal_bytes_whatever_order_their_cells_came_in():
    cells = [
        "  cost_overrun:\n    batch: {rungs: [{reaction: abort}]}\n",
        "  plan_malformed:\n    batch: {rungs: [{reaction: abort}]}\n",
    ]
    one, other = (fabric_read(f"{SMALL}decision_table:\n{''.join(order)}").spec for order in (cells, cells[::-1]))
    assert one == other
    assert fabric_dump(one) == fabric_dump(other)


# What YAML can carry: no controls but tab and line feed, no lone surrogates.
prose = st.text(
    st.characters(codec="utf-8", categories=("L", "M", "N", "P", "S", "Zs"), include_characters="\n\t"), max_size=200
)


@settings(max_examples=many(150), deadline=None)
@given(
    title=prose,
    text=prose,
    options=st.dictionaries(prose, st.none() | st.booleans() | st.integers(-(2**62), 2**62) | prose, max_size=4),
)
def test_any_text_survives_the_round_trip(title, text, options):
    tree = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    tree["title"], tree["description"], tree["models"][0]["options"] = f"x{title}"[:150], text, options
    tree["agents"][0]["instructions"] = text
    spec = FabricSpec.model_validate(tree)
    assert fabric_read(fabric_dump(spec)).spec == spec


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("instructions: Read.", "instructions: Read.\n    modle: x", ["line 17, column 5, agents.1.modle: there is no such field; did you mean 'model'?"]),
        ("    instructions: Plan.\n", "", ["line 11, column 5, agents.0.instructions: is missing; give it a value"]),
        ("workers: [reader]", "workers: [raeder]", ["line 20, column 13, topology.workers.0: no agent is named 'raeder'; there are: planner, reader"]),
        ("tools: [read_document]", "tools: [reed]", ["line 17, column 5, agents.1.tools: no tool is named 'reed'; there are: read_document"]),
        ("  planner: planner\n", "", ["topology: name a planner or give a fixed plan, one of the two"]),
        ("workers: [reader]", "workers: []", ["topology.workers: is empty; give at least one"]),
        ("name: small\n", "name: Small Fabric\n", ["line 1, column 7, name: 'Small Fabric' is no name"]),
        ("1000000", "ten", ["policy.budget.run_usd_micros: 'ten' is no whole number"]),
        ("1000000", "0.5", ["policy.budget.run_usd_micros: 0.5 is no whole number"]),
        ("budget: {run_usd_micros: 1000000}", "tau: high\n  budget: {run_usd_micros: 1000000}", ["policy.tau: 'high' is no number"]),
        ("budget: {run_usd_micros: 1000000}", "budget:", ["line 23, column 1, policy.budget: is empty; give it a value"]),
        ("budget: {run_usd_micros: 1000000}", "budget: {run_usd_micros: -1}", ["policy.budget.run_usd_micros: -1 is too small"]),
        ("budget: {run_usd_micros: 1000000}", "budget: 5", ["policy.budget: 5 is no group of fields; give fields with values"]),
        ("budget: {run_usd_micros: 1000000}", "budget: {}", ["policy.budget.run_usd_micros: is missing"]),
        ("input_usd_per_mtok: 1", "input_usd_per_mtok: cheap", ["models.0.price.input_usd_per_mtok: 'cheap' is not a price"]),
        ("model: script\n    instructions: Plan.", "model: big\n    instructions: Plan.", ["line 12, column 12, agents.0.model: no model is named 'big'; there are: script"]),
        ("reviewers: [owner]", "tiers: {default: batch, allowed: [interactive]}", ["tiers: the default batch is not among the allowed ones"]),
    ],
)  # fmt: skip
def test_an_error_names_line_column_path_and_remedy(old, new, told):
    assert old in SMALL
    problems = refused(SMALL.replace(old, new, 1)).problems
    assert len(problems) == len(told), problems
    for problem, wanted in zip(problems, told, strict=True):
        assert wanted in problem
        assert problem.startswith("line ")


def test_every_problem_is_told_with_the_files_name_before_it():
    error = refused(
        SMALL.replace("model: script", "model: big").replace("tools: [read", "tools: [write"), origin="f.yaml"
    )
    assert [problem.split(": ")[0] for problem in error.problems] == [
        "f.yaml, line 12, column 12, agents.0.model",
        "f.yaml, line 15, column 12, agents.1.model",
        "f.yaml, line 17, column 5, agents.1.tools",
    ]
    assert error.message.startswith("3 things are wrong: ")
    assert error.field == "agents.0.model"


WRONG_IN_POLICY = """
  breakers:
    - {preset: endpoint, scope: agent, only: [reader, riter]}
    - {preset: endpoint, only: [openai]}
  goal_gates: {nodes: [riter]}
"""


def test_each_of_several_things_in_a_policy_has_its_own_place():
    told = refused(SMALL.replace("1000000}\n", "1000000}" + WRONG_IN_POLICY, 1)).problems
    assert [one.partition(": ")[0] for one in told] == [
        "line 26, column 24, policy.goal_gates.nodes.0",
        "line 24, column 55, policy.breakers.0.only.1",
        "line 25, column 33, policy.breakers.1.only.0",
    ]
    assert told[2].endswith("no model of this fabric is asked at 'openai'; there are: scripted")


def test_breakers_that_name_something_and_such_that_do_not_are_written_and_read():
    breakers = "breakers: [{preset: semantic, only: [reader]}, {preset: endpoint, scope: fabric}]"
    spec = fabric_read(SMALL.replace("policy:\n", f"policy:\n  {breakers}\n")).spec
    text = fabric_dump(spec)
    assert "- reader" in text
    assert "only: []" in text
    assert (fabric_read(text).spec, fabric_read(text).spec.digest()) == (spec, spec.digest())


@pytest.mark.parametrize("text", ["", "# nothing", "- a", "just words", "1"])
def test_what_is_no_fabric_at_all(text):
    assert "a fabric is fields with values" in refused(text).message


def test_malformed_yaml_is_told_with_its_place():
    error = refused("name: small\ntitle: [", origin="f.yaml")
    assert error.message.startswith("f.yaml, line 2, column ")
    assert error.code == "invalid"


def test_a_text_that_is_too_large_is_told_so():
    assert refused("a: " + "x" * 300_000).code == "too_large"
