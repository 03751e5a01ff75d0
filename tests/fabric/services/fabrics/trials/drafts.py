"""A fabric with one of everything that can be tried, and samples that pass, that fail and that cannot be judged."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import agent, tree

SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xYz"
QUERY = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]}
PERMIT = {"name": "everything", "text": "permit(principal, action, resource);"}
FEW = {
    "name": "few",
    "text": 'forbid(principal, action == Action::"tool", resource) when { context.args.n > 3 };',
}
GATES: JSON = {
    "citations": "exist",
    "grounding": "numbers",
    "max_outcome_chars": 60,
    "invariants": [
        {"stage": "finalize", "name": "long", "expression": "size(payload.text) > 9", "message": "It is too short."}
    ],
    "guardrails": [{"places": ["finalize", "arguments"], "rules": ["credentials"]}],
    "policies": [PERMIT, FEW],
    "oracle": [
        {"name": "named", "expression": "outcome.text.contains('euros')", "message": "It names no currency."},
        {"name": "looked-up", "tool": "look", "arguments": {"q": "{outcome.text}"}, "message": "It is not on file."},
        {
            "name": "on-line",
            "http": {"url": "https://books.example/{run.id}"},
            "expression": "answer.json.total == 40",
            "message": "The total is another one.",
        },
        {"name": "met", "critic": "judge", "message": "The criteria are not met."},
    ],
    "grounding_critic": "judge",
}


def draft(**parts: JSON) -> JSON:
    """The fabric as its YAML reads; ``parts`` by dotted path, with two underscores for a dot, are put in place of what stands there."""
    found: JSON = json.loads(json.dumps(tree(gates=GATES, topology={"plan_critic": "judge"})))
    found["tools"] = [
        {"name": "look", "kind": "http", "target": "https://x.example", "description": "Looks.", "parameters": QUERY}
    ]
    found["agents"].append(agent("judge"))
    found["memories"] = [{"name": "notes", "scope": "run", "value_bytes": 12, "value_schema": {"type": "string"}}]
    for path, value in parts.items():
        put(found, path.replace("__", "."), value)
    return found


def put(tree_: JSON, path: str, value: JSON) -> None:
    """Puts a value at a dotted path."""
    *before, last = [int(one) if one.isdigit() else one for one in path.split(".")]
    for step in before:
        tree_ = tree_[step]
    tree_[last] = value


def as_json(value: JSON) -> str:
    return json.dumps(value)


def plan_for(name: str) -> JSON:
    return {"briefs": [{"agent": name, "instructions": "Do it."}], "exit_criteria": ["It is done."]}


def verdict(**fields: JSON) -> str:
    return as_json({"accept": True, "findings": [], "evidence": ["It says so."], **fields})


@dataclass(frozen=True)
class Case:
    """A check with what passes it, what fails it, and what leaves it unjudged: samples, the last with a part that is written in place of another."""

    path: str
    passes: dict[str, str]
    fails: dict[str, str]
    fails_with: str
    errs: dict[str, str]
    errs_with: str
    broken: dict[str, JSON] = field(default_factory=dict)


ACTION = {"principal": 'Agent::"worker"', "action": "tool", "resource": 'Tool::"look"'}
SAID = {"documents": as_json({"ledger.md": "The balance is 40 euros."}), "citations": as_json(["ledger.md"])}
CASES: dict[str, Case] = {
    "stage": Case(
        "stages.plan",
        {"payload": as_json(plan_for("worker"))},
        {"payload": as_json(plan_for("ghost"))},
        "'ghost' is not one of the workers",
        {"payload": as_json(plan_for("worker"))},
        "there is no such field",
        {"policy.limits": {"plan_branchs": 3}},
    ),
    "policies": Case(
        "gates.policies",
        {**ACTION, "context": as_json({"args": {"q": "who", "n": 3}})},
        {**ACTION, "context": as_json({"args": {"q": "who", "n": 4}})},
        "Denied: few forbids it.",
        {**ACTION, "context": as_json({"args": {"q": "who"}})},
        "few could not be evaluated: record does not have the attribute n",
    ),
    "guardrails": Case(
        "gates.guardrails.0",
        {"place": "finalize", "text": "The balance is 40 euros."},
        {"place": "finalize", "text": f"The token is {SECRET}."},
        "looks like credentials.github_token (ghp_…, 40 characters)",
        {"place": "finalize", "text": "The balance."},
        "is no RE2 pattern",
        {"gates.guardrails.0.patterns": [{"name": "own", "pattern": "(?<=a)b"}]},
    ),
    "invariants": Case(
        "gates.invariants.0",
        {"payload": as_json({"text": "Forty euros."})},
        {"payload": as_json({"text": "Forty."})},
        "invariant long: It is too short.",
        {"payload": as_json({"citations": []})},
        "invariant long could not be evaluated: KeyError: 'text'",
    ),
    "length": Case(
        "gates.max_outcome_chars",
        {"answer": "40 euros"},
        {"answer": "40 euros. " * 10},
        "100 characters, at most 60 are allowed",
        {"answer": "40 euros"},
        "'many' is no whole number",
        {"gates.max_outcome_chars": "many"},
    ),
    "grounding": Case(
        "gates.grounding",
        {"answer": "It is 40 euros.", **SAID},
        {"answer": "It is 41 euros.", **SAID},
        "41 is in no source and no tool's answer",
        {"answer": "It is 40 euros.", **SAID},
        "'words' is none of",
        {"gates.grounding": "words"},
    ),
    "oracle": Case(
        "gates.oracle.0",
        {"outcome": as_json({"text": "40 euros"})},
        {"outcome": as_json({"text": "40"})},
        "check named: It names no currency.",
        {"outcome": as_json({"said": "40"})},
        "check named could not be evaluated: KeyError: 'text'",
    ),
    "verdict": Case(
        "gates.grounding_critic",
        {"verdict": verdict(score=0.7)},
        {"verdict": verdict(accept=False, findings=["40 is in no source."])},
        "40 is in no source.",
        {"verdict": verdict(findings=["But."])},
        "it is accepted and has findings",
    ),
    "confidence": Case(
        "policy.tau",
        {"score": "0.7"},
        {"score": "0.69"},
        "the score is 0.69, and the fabric needs at least 0.70",
        {"score": "1.1"},
        "less than",
    ),
    "arguments": Case(
        "tools.0",
        {"arguments": as_json({"q": "who"})},
        {"arguments": as_json({"q": 4})},
        '4 is not of type "string"',
        {"arguments": as_json({"q": "who"})},
        "the schema does not compile",
        {"tools.0.parameters": {"type": "thing"}},
    ),
    "remembered": Case(
        "memories.0",
        {"key": "balance", "value": as_json("40 euros")},
        {"key": "balance", "value": as_json("40 euros and 7 cents")},
        "too_large: the value has 22 bytes, and at most 12 are kept",
        {"key": "balance", "value": as_json("40 euros")},
        "the schema does not compile",
        {"memories.0.value_schema": {"type": "thing"}},
    ),
}
