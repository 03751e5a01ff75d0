"""All errors of a text are found in one check, also beside a field that is wrong."""

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.services.fabrics.checks import MORE_LATER, check_text
from fabric.services.fabrics.templates import template_get
from tests.fabric.services.world import SMALL

PAYMENT = template_get("payment-approval").text
FIXED = SMALL.replace(
    "  planner: planner\n",
    "  plan: {exit_criteria: [It was read.], briefs: [{agent: reader, instructions: Read it.}]}\n",
)
TOOLS = """tools:
  - name: crm
    kind: http
    effect: read_only
    target: https://crm.example/ask
    description: Asks the CRM.
    headers_from: "Authorization: CRM_TOKEN"
    parameters: {type: object}
"""


def errors(text):
    return [(one.path, one.sentence.partition(";")[0]) for one in check_text(text).errors]


def test_an_unknown_field_of_a_brief_is_refused():
    assert errors(FIXED.replace("instructions: Read it.", "instructions: Read it., bogus_key: 1")) == [
        ("topology.plan.briefs.0.bogus_key", "there is no such field")
    ]


def test_a_sentence_that_yaml_breaks_at_its_comma_is_no_half_order():
    quoted = '"Reserve the amount, then pay it."'
    assert quoted in PAYMENT
    assert errors(PAYMENT.replace(quoted, quoted.strip('"'))) == [
        ("topology.plan.briefs.0.then pay it.", "there is no such field")
    ]


def test_a_wrong_field_hides_no_other_error():
    text = SMALL.replace("tools:\n", TOOLS, 1).replace("1000000}", "0}\n  tau: 7", 1).replace("[owner]", "[]")
    found = errors(text)
    assert found[0][0] == "tools.0.headers_from"
    assert {"policy.budget.run_usd_micros", "policy.tau", "reviewers"} <= {path for path, _ in found}


def test_an_error_of_the_whole_shows_beside_an_error_of_a_field():
    text = SMALL.replace("tools:\n", TOOLS, 1).replace("tools: [read_document]", "tools: [reed]")
    assert [path for path, _ in errors(text)] == ["tools.0.headers_from", "agents.1.tools"]


def test_a_publication_rule_shows_beside_an_error_of_a_field():
    text = SMALL.replace("title: A small", "titel: x\ntitle: A small").replace("reviewers: [owner]\n", "")
    assert [path for path, _ in errors(text)] == ["titel", "reviewers"]


def test_what_a_left_out_field_may_cause_is_no_error():
    """Without its own budget group the policy has no cap, which is no mistake of the author's."""
    text = SMALL.replace("budget: {run_usd_micros: 1000000}", "budget: {run_usd_micros: 1000000, bogus: 1}")
    assert [path for path, _ in errors(text)] == ["policy.budget.bogus"]


@pytest.mark.parametrize(
    "text", [SMALL.replace("title: A", "titel: A"), SMALL.replace("    instructions: Plan.\n", "")]
)
def test_a_note_says_that_more_may_be_found_later(text):
    assert [one.sentence for one in check_text(text).findings if one.level == "note"] == [MORE_LATER]
    assert not [one for one in check_text(SMALL).findings if one.level == "note"]


def test_no_group_of_a_fabric_takes_fields_that_it_does_not_know():
    groups = FabricSpec.model_json_schema()["$defs"]
    assert not [name for name, one in groups.items() if "properties" in one and one.get("additionalProperties", True)]
