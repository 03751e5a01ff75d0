"""Judges at publication: never an author, never a tool that changes something, never an address that is not fixed."""

from typing import Any

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.services.fabrics.publication.rules import publication_warnings
from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.services.fabrics.publication.test_rules import plan, told
from tests.fabric.services.world import SMALL


def judging(topology: dict[str, Any] | None = None, gates: dict[str, Any] | None = None) -> FabricSpec:
    """The small fabric with a stronger agent, a judge and a tool that changes something."""
    found = fabric_read(SMALL).spec.model_dump(mode="json", by_alias=True)
    agents = [{"name": name, "model": "script", "instructions": "Work."} for name in ("lead", "judge")]
    put = {
        "name": "put",
        "kind": "http",
        "effect": "idempotent",
        "description": "Puts.",
        "target": "https://example.org/",
        "parameters": {},
    }
    found["agents"] += agents
    found["tools"].append(put)
    found["topology"] |= {"handover": "lead"} | (topology or {})
    return FabricSpec.model_validate(found | {"gates": gates or {}})


def oracle(**check: Any) -> dict[str, Any]:
    return {"oracle": [{"name": "own", "message": "No.", **check}]}


@pytest.mark.parametrize(
    ("topology", "gates", "path", "sentence"),
    [
        ({"plan_critic": "planner"}, {}, "topology.plan_critic", "'planner' is the planner, and would judge"),
        ({"plan_critic": "lead"}, {}, "topology.plan_critic", "'lead' may plan where the run is handed over"),
        ({}, oracle(critic="reader"), "gates.oracle.0.critic", "'reader' is one of the workers"),
        ({"finalizer": "lead"}, oracle(critic="lead"), "gates.oracle.0.critic", "'lead' is the finalizer"),
        ({"aggregator": "lead"}, oracle(critic="lead"), "gates.oracle.0.critic", "'lead' is the aggregator"),
        (
            {},
            {"grounding": "citations", "grounding_critic": "reader"},
            "gates.grounding_critic",
            "would judge what it wrote itself; name another agent",
        ),
        ({}, {"grounding_critic": "judge"}, "gates.grounding_critic", "there is none; give gates.grounding"),
        ({}, oracle(tool="put"), "gates.oracle.0.tool", "is idempotent; an oracle asks and changes nothing"),
        (
            {},
            oracle(tool="read_document", arguments={"name": "{outcome.title}"}),
            "gates.oracle.0.arguments",
            "{outcome.title} is no place; there are outcome.text",
        ),
        (
            {},
            oracle(http={"url": "https://{outcome.text}/x"}),
            "gates.oracle.0.http.url",
            "no address with a fixed host",
        ),
        (
            {},
            oracle(http={"url": "https://a@{run.id}.org/"}),
            "gates.oracle.0.http.url",
            "no address with a fixed host",
        ),
        ({}, oracle(http={"url": "http://127.0.0.1/{run.id}"}), "gates.oracle.0.http.url", "FABRIC_ALLOWED_HOSTS"),
        ({}, oracle(http={"url": "https://example.org/{x}"}), "gates.oracle.0.http.url", "{x} is no place"),
        (
            {},
            oracle(tool="read_document", expression="payload.x"),
            "gates.oracle.0.expression",
            "there are: outcome, exit_criteria, run, answer",
        ),
    ],
)
def test_a_judge_is_no_author_and_an_oracle_asks_what_may_be_asked(topology, gates, path, sentence):
    found = told(judging(topology, gates))
    assert [where for where, _ in found] == [path]
    assert sentence in found[0][1]


@pytest.mark.parametrize(
    ("topology", "gates", "sentence"),
    [
        ({"plan_critic": "nobody"}, {}, "topology.plan_critic: no agent is named 'nobody'"),
        ({}, {"grounding_critic": "nobody"}, "gates.grounding_critic: no agent is named 'nobody'"),
        ({}, oracle(critic="nobody"), "gates.oracle.0.critic: no agent is named 'nobody'"),
        ({}, oracle(tool="nothing"), "gates.oracle.0.tool: no tool is named 'nothing'"),
        ({}, oracle(), "an oracle check asks nothing; give expression, tool, http or critic"),
        ({}, oracle(tool="put", critic="judge"), "this one names tool and critic; split it"),
        ({}, oracle(critic="judge", expression="true"), "leave its expression out"),
        ({}, oracle(expression="true", arguments={}), "arguments are a tool's; name the tool"),
        (plan(1) | {"planner": None, "plan_critic": "judge"}, {}, "a fixed plan needs no judgement"),
    ],
)
def test_a_judge_that_there_is_not_is_refused_where_the_fabric_is_saved(topology, gates, sentence):
    with pytest.raises(ValueError, match="validation error") as caught:
        judging(topology, gates)
    assert sentence in str(caught.value)


def test_judges_that_are_no_authors_are_published_and_used():
    gates = {
        "grounding": "citations",
        "grounding_critic": "judge",
        **oracle(http={"url": "https://example.org/{run.id}"}),
    }
    found = judging({"plan_critic": "judge"}, gates)
    assert told(found) == []
    assert [one.path for one in publication_warnings(found)] == ["tools.1"]
