"""A fabric as a file: the author's text byte for byte, else the spec with a comment at each limit; and either is published back as the same content."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.flow_policy import policy_fields
from fabric.models import AuditLine, Revision
from fabric.selectors.fabrics.lookup import fabric_get, revision_get
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.fabrics.yaml.document import fabric_dump, fabric_read
from fabric.services.fabrics.yaml.export import HEADINGS, export_revision, written_out
from fabric.services.fabrics.yaml.tree import read_yaml
from tests.fabric.services.fabrics.yaml.test_document import prose
from tests.fabric.services.world import SAMPLE_NAMES, SMALL, sample

BOOKING = "127.0.0.1:8421"


def export(actor, name):
    return export_revision(revision_get(actor, name))


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_published_sample_is_exported_byte_for_byte(actor, settings, name):
    settings.FABRIC_ALLOWED_HOSTS = (BOOKING,)
    text = sample(name)
    fabric_publish(actor=actor, source=text)
    assert export(actor, name) == text


def test_the_last_text_of_a_content_is_kept_and_audited_is_what_was_published(actor):
    fabric_publish(actor=actor, source=SMALL)
    commented = f"# Why it is as it is.\r\n{SMALL}"
    again = fabric_publish(actor=actor, source=commented)
    assert (again.number, again.changed, again.rewritten) == (1, False, True)
    assert export(actor, "small") == commented
    assert fabric_publish(actor=actor, source=commented).rewritten is False
    assert Revision.objects.count() == 1
    assert AuditLine.objects.filter(kind="fabric_published").count() == 1


def test_a_revision_of_before_is_written_out_and_publishing_that_keeps_it(actor):
    fabric_publish(actor=actor, source=SMALL)
    Revision.objects.update(source="")
    text = export(actor, "small")
    assert text == written_out(fabric_read(SMALL).spec)
    again = fabric_publish(actor=actor, source=text)
    assert (again.number, again.changed, again.rewritten) == (1, False, False)
    assert export(actor, "small") == text


def test_a_text_that_is_not_exactly_the_revision_is_not_kept_with_it(actor):
    fabric_publish(actor=actor, source=SMALL)
    stored = Revision.objects.get()
    Revision.objects.update(spec=stored.spec.replace("A small fabric", "Another fabric"), source="")
    fabric_publish(actor=actor, source=SMALL)
    assert Revision.objects.get(number=stored.number).source == ""


def test_lists_do_not_read_the_texts(actor, django_assert_num_queries):
    fabric_publish(actor=actor, source=SMALL)
    with django_assert_num_queries(1) as asked:
        fabric_get(actor, "small")
    assert '"source"' not in asked.captured_queries[0]["sql"]


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_a_written_out_sample_reads_back_equal_and_is_written_the_same_again(name):
    spec = fabric_read(sample(name)).spec
    text = written_out(spec)
    again = fabric_read(text).spec
    assert (again, again.digest(), written_out(again)) == (spec, spec.digest(), text)
    bare = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert bare == [line for line in fabric_dump(spec).splitlines() if not line.lstrip().startswith("#")]


@settings(max_examples=100, deadline=None)
@given(text=prose, options=st.dictionaries(prose, st.none() | st.booleans() | prose, max_size=4))
def test_no_text_is_broken_by_the_comments_around_it(text, options):
    tree = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    tree["description"], tree["models"][0]["options"] = text, options
    tree["agents"][-1]["instructions"] = tree["topology"]["finalizer"] = None
    tree["agents"][-1]["instructions"], tree["topology"]["finalizer"] = text, "reader"
    spec = FabricSpec.model_validate(tree)
    assert fabric_read(written_out(spec)).spec == spec


EVERY = """\
  budget: {run_usd_micros: 1000000, call_usd_micros: 1000000, stage_usd_micros: 1000000, agent_usd_micros: 1000000,
    fabric_hour_usd_micros: 1000000, session_usd_micros: 1000000, session_tokens: 90000, run_tokens: 90000, stage_tokens: 90000, agent_tokens: 90000,
    agents: {reader: {usd_micros: 500000}}}
  deadlines: {batch: {call_s: 1, stage_s: 2, run_s: 3}, high_stakes: {call_s: 1, stage_s: 2, run_s: 3}}
  limits: {max_node_visits: 9, max_visits: {plan: 3}, visits_preset: fabro}
  cost_velocity: {usd_micros_per_minute: 9, agent_usd_micros_per_minute: 9, stage_usd_micros_per_minute: 9, tokens_per_minute: 9}
  loop_detector: {preset: flow}
  stall_watchdog: {after_s: 10}
  humans: {due_s: 60}
  retry_layers: {preset: fabro, max_retries: 2, retry_target: replan, fallback_retry_target: replan}
  fan_in: {mode: quorum, k: 1}
  retry: {stage_retries: 2}
"""


def test_each_budget_and_limit_has_its_unit_its_default_and_its_source():
    source = SMALL.replace("  budget: {run_usd_micros: 1000000}\n", EVERY) + "tiers: {allowed: [interactive]}\n"
    text = written_out(fabric_read(source).spec)
    lines, keys = text.splitlines(), read_yaml(text).keys
    above = {}
    for path, field in policy_fields():
        first, *rest = path.split(".")
        place = ("policy", first, *(["batch"] if first == "deadlines" else []), *rest)
        if place not in keys and field.default is None:
            continue
        above[path] = lines[keys[place].line - 2].strip()
        assert above[path].startswith("# "), path
        assert "Source: " in above[path], path
    assert above["budget.run_usd_micros"] == (
        "# A run may spend at most this amount. Unit: micro-dollars. Source: required, without a default."
    )
    assert (
        above["limits.hops"]
        == "# Agents may hand over at most this often in one chain of peers. Unit: handoffs. Default: 5. Source: S0: hop limit."
    )
    assert above["humans.due_s"].startswith("# People have this long to answer a review.")
    assert above["humans.due_s"].endswith(
        "Unit: seconds. Default: the tier's. Source: tier default, docs/specification/protections.md."
    )
    assert above["deadlines.call_s"].startswith(
        "# A call may take at most this long. Unit: seconds. Default: 120.0. Source: tier default"
    )
    assert above["tau"].endswith("Unit: score. Default: 0.7. Source: S0: confidence threshold.")


def test_what_is_not_set_is_named():
    text = written_out(fabric_read(SMALL).spec)
    assert "  # Stalls. Not set: after_s.\n  stall_watchdog: {}\n" in text


def test_every_group_has_its_line():
    assert set(HEADINGS) == set(FabricSpec.model_fields) - {"title", "description", "example"}
