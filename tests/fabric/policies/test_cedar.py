"""Cedar policies: parsed with the line of an error, asked with values that Cedar has, and closed where it has none."""

from __future__ import annotations

import pytest

from fabric.core.mechanisms.permissions import CONTEXT, NAMED
from fabric.core.state.evaluators import PolicyRequest
from fabric.policies import cedar as cedar_policies
from tests.fabric.core.fabrics import lone

ABOUT = dict.fromkeys(CONTEXT, "")


def told(*texts):
    policies = [{"name": f"own-{n}", "text": text} for n, text in enumerate(texts)]
    return list(cedar_policies.problems(lone(gates={"policies": policies})))


def ruled(when, args):
    """Return what a policy that permits with a condition says of a call."""
    rules = cedar_policies.find_rules(
        lone(gates={"policies": [{"name": "own", "text": f"permit(principal, action, resource) when {{ {when} }};"}]})
    )
    assert rules is not None
    return rules(PolicyRequest("tool", ("Agent", "worker"), ("Tool", "look"), {**ABOUT, "args": args}))


PERMIT = "permit(principal, action, resource);"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("forbid(principal, action resource);", 1, "unexpected token 'resource'"),
        ("permit(principal, action, resource)\nwhen { context.x. };", 2, "unexpected token '}'"),
        ("permit(\n  principal,\n  action\n  resource\n)\n;", 4, "unexpected token 'resource'"),
        ("permit(principal,\n action,", 2, "unexpected end of input"),
        ('permit(principal,\n action, "resource);\n', 2, "invalid token"),
        ("permit(principal, action, resource) when {\n  context.tier == 'x'\n};", 2, "invalid token"),
        ("permit(principal, action, resource)\nwhen { unheard_of(3) };", 2, "'unheard_of' is not a valid function"),
    ],
)
def test_what_does_not_parse_is_told_with_its_line(text, line, said):
    ((path, sentence),) = told(text)
    assert path == "gates.policies.0.text"
    assert sentence == f"policy 'own-0' does not parse, line {line}: {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("// nothing but words", "holds 0 policies; write one, and give each its own name"),
        (PERMIT * 2, "holds 2 policies; write one, and give each its own name"),
        (
            "permit(principal == ?principal, action, resource);",
            "has a slot (?principal or ?resource), which nothing fills",
        ),
        (
            'permit(principal == Agent::"boss", action, resource);',
            'names Agent::"boss", which there is not; there are: worker',
        ),
        ('permit(principal, action == Action::"toll", resource);', "there are: enter, handoff, output, spawn, tool"),
        (
            'permit(principal, action, resource) when { [Tool::"x"].contains(resource) };',
            'names Tool::"x", which there is not',
        ),
        ("permit(principal is User, action, resource);", "asks for type User, which there is not"),
        ('permit(principal == User::"me", action, resource);', 'names User::"me", which there is not'),
        ("permit(principal, action, resource) when { context.tear == 1 };", "names context.tear, which there is not"),
        ("permit(principal, action, resource) when { context has tear };", "names context.tear, which there is not"),
    ],
)
def test_what_could_never_apply_is_refused(text, said):
    found = [sentence for path, sentence in told(PERMIT, text) if path == "gates.policies.1.text"]
    assert len(found) == 1
    assert found[0].startswith("policy 'own-1' ")
    assert said in found[0]


def test_policies_are_named_apart_and_permit_something():
    twice = [{"name": "own", "text": PERMIT}] * 2
    assert list(cedar_policies.problems(lone(gates={"policies": twice}))) == [
        ("gates.policies.1.name", "'own' is there twice; name them apart")
    ]
    ((path, sentence),) = told("forbid(principal, action, resource);")
    assert (path, sentence[:14]) == ("gates.policies", "permit nothing")


def test_everything_that_actions_hold_may_be_named():
    named = " || ".join(
        f"context has {name}" for name in {*CONTEXT, *(name for more in NAMED.values() for name in more)}
    )
    actions = ", ".join(f'Action::"{name}"' for name in NAMED)
    assert told(f"permit(principal, action in [{actions}], resource) when {{ {named} }};") == []


@pytest.mark.parametrize(
    ("when", "args"),
    [
        ("context.args.n == 4", {"n": 4}),
        ("context.args.n == 4", {"n": 4.0}),
        ('context.args.n.lessThan(decimal("2.51"))', {"n": 2.5}),
        ('context.args.n.greaterThan(decimal("-2.51"))', {"n": -2.5}),
        ("context.args.on", {"on": True}),
        ('context.args.list.contains("b") && context.args.list.contains(2)', {"list": ["a", "b", 2, None]}),
        ("!(context.args has gone)", {"gone": None}),
        ('context.args.deep.down.there == "x"', {"deep": {"down": {"there": "x"}}}),
        ('context.args.n == "9223372036854775808"', {"n": 2**63}),
        ('context.args.n == "0.123456"', {"n": 0.123456}),
        ('context.args.n == "1e+300"', {"n": 1e300}),
        ('context.args.n == "nan"', {"n": float("nan")}),
        ('context.args.q like "*\\u{0}*"', {"q": "a\0b"}),
    ],
)
def test_json_values_as_policies_see_them(when, args):
    found = ruled(when, args)
    assert (found.why, found.policies) == ("", ("own",))


@pytest.mark.parametrize(
    ("when", "args", "why"),
    [
        ("context.args.n > 1", {"n": 2**63}, "own could not be evaluated: type error: expected "),
        ("context.args.n > 1", {"n": 0.123456}, "own could not be evaluated: type error: expected "),
        ("context.args.n > 1", {}, "own could not be evaluated: record does not have the attribute n"),
        (
            "true",
            {"__extn": {"fn": "decimal", "arg": "1.0"}},
            "a key is named __extn, which policies read as something",
        ),
        ("true", {"x": [{"__entity": {"type": "Agent", "id": "boss"}}]}, "a key is named __entity"),
        ("true", {"q": "\ud800"}, "the policies could not be asked"),
        ("context.args.n > 1", {"n": 1}, "no policy permits it"),
    ],
)
def test_what_cannot_be_evaluated_is_denied(when, args, why):
    assert why in ruled(when, args).why


def test_what_is_nested_too_deeply_is_denied():
    args: dict = {}
    for _ in range(70):
        args = {"a": args}
    assert "nested too deeply" in ruled("true", args).why
