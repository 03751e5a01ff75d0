"""The schema for editors: it takes what is published and refuses what the reader refuses, as far as a schema can say it."""

import jsonschema_rs
import pytest

from fabric.core.spec.policies.breakers import PRESETS
from fabric.services.errors import Refused
from fabric.services.fabrics.schema import fabric_schema
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.export import written_out
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.fabric.services.fabrics.yaml.test_export import EVERY
from tests.fabric.services.world import SAMPLE_NAMES, SMALL, sample


@pytest.fixture(scope="module")
def fits():
    validator = jsonschema_rs.validator_for(fabric_schema())
    return lambda text: validator.is_valid(read_yaml(text).value)


def test_it_is_a_schema_of_its_draft_with_a_name():
    schema = fabric_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == "urn:fabric-flow:fabric"
    assert jsonschema_rs.meta.is_valid(schema)
    fabric_schema()["properties"].clear()
    assert fabric_schema() == schema


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_every_sample_fits_and_so_does_it_written_out(fits, name):
    text = sample(name)
    assert fits(text)
    assert fits(written_out(fabric_read(text).spec))


@pytest.mark.parametrize("preset", PRESETS)
def test_breakers_may_be_presets(fits, preset):
    text = SMALL.replace("policy:\n", f"policy:\n  breakers: [{{preset: {preset}, cooldown_s: 5}}]\n")
    assert fabric_read(text)
    assert fits(text)
    assert not fits(text.replace(f"preset: {preset}, ", ""))


def test_what_sets_every_limit_fits(fits):
    assert fits(SMALL.replace("  budget: {run_usd_micros: 1000000}\n", EVERY))


CELL = "decision_table: {loop: {batch: {rungs: [{reaction: abort}]}}}\n"
REFUSED = {
    "an unknown field": ("title: A small", "titel: x\ntitle: A small"),
    "an unknown field within": ("instructions: Read.", "instructions: Read.\n    modle: x"),
    "an unknown limit": ("run_usd_micros", "run_usd"),
    "a field that is missing": ("    instructions: Plan.\n", ""),
    "a name that is none": ("name: small\n", "name: Small Fabric\n"),
    "a list for a text": ("title: A small fabric", "title: [a]"),
    "a text for a list": ("workers: [reader]", "workers: reader"),
    "an empty list": ("workers: [reader]", "workers: []"),
    "a word for a number": ("1000000", "ten"),
    "a fraction of a micro-dollar": ("1000000", "1.5"),
    "less than nothing": ("1000000", "-1"),
    "a list for a price": ("input_usd_per_mtok: 1", "input_usd_per_mtok: [1]"),
    "a kind of tool that there is not": ("- name: read_document", "- {name: read_document, kind: magic}\n  #"),
    "an effect that there is not": ("- name: read_document", "- {name: read_document, effect: none}\n  #"),
    "a tier that there is not": ("reviewers: [owner]", "tiers: {default: nightly}"),
    "a failure that there is not": ("reviewers: [owner]", CELL.replace("loop", "weather")),
    "a tier of a cell that there is not": ("reviewers: [owner]", CELL.replace("batch", "nightly")),
    "a reaction that there is not": ("reviewers: [owner]", CELL.replace("abort", "panic")),
    "a cell without rungs": ("reviewers: [owner]", CELL.replace("{reaction: abort}", "")),
    "a detector that there is not": ("policy:\n", "policy:\n  loop_detector: {detectors: [Z]}\n"),
    "a tau above 1": ("policy:\n", "policy:\n  tau: 1.5\n"),
    "a fan-in that there is not": ("policy:\n", "policy:\n  fan_in: {mode: some}\n"),
    "a breaker in front of nothing": ("policy:\n", "policy:\n  breakers: [{preset: semantic, scope: moon}]\n"),
    "a preset that there is not": ("policy:\n", "policy:\n  breakers: [{preset: none}]\n"),
    "a stage that there is not": ("policy:\n", "policy:\n  limits: {max_visits: {dream: 2}}\n"),
    "a grounding that there is not": ("policy:\n", "gates: {grounding: faith}\npolicy:\n"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_for_its_shape_does_not_fit(fits, what):
    old, new = REFUSED[what]
    assert old in SMALL
    text = SMALL.replace(old, new, 1)
    with pytest.raises(Refused):
        fabric_read(text)
    assert fits(SMALL)
    assert not fits(text)


def test_limits_say_their_unit_and_choices_are_closed():
    defs = fabric_schema()["$defs"]
    assert defs["Budget"]["properties"]["run_usd_micros"]["description"].endswith("Unit: micro-dollars.")
    assert defs["Limits"]["properties"]["hops"]["default"] == 5
    assert (
        defs["Deadlines"]["properties"]["call_s"]["description"] == "A call may take at most this long. Unit: seconds."
    )
    assert defs["Tier"]["enum"] == ["interactive", "batch", "high_stakes"]


def test_the_line_that_tells_an_editor_where_the_schema_is_says_nothing_to_the_reader():
    line = "# yaml-language-server: $schema=fabric.schema.json\n"
    assert fabric_read(line + SMALL).spec == fabric_read(SMALL).spec
