"""Cases of what a fabric asks its runs: CEL, Cedar, regular expressions, schemas; and of files that people attach."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pydantic import ValidationError

from fabric.adapters.documents.attachments import read_all
from fabric.core.spec.policies.gates import CedarPolicy, Gates
from fabric.policies import cedar as cedar_policies
from fabric.policies.expressions.evaluation import evaluate, too_costly
from fabric.policies.expressions.invariants import ExpressionProblem, compile_program
from fabric.policies.guardrails.compiled import (
    SHIPPED,
    NamedPattern,
    PatternProblem,
    build_scan,
    compile_pattern,
    compile_patterns,
    redact_value,
)
from fabric.policies.schemas.evaluators import problems as schema_problems
from fabric.services.fabrics.yaml.document import fabric_read
from tests.fabric.services.world import SMALL
from tests.hostile.measured import Case
from tests.hostile.texts import filled, numbered

LIST = f"[{','.join(['1'] * 40)}]"
ABOUT = {"payload": {"names": ["x"] * 100_000, "text": "x" * 1_000_000}, "run": {}, "stage": "finalize"}
SPEC = fabric_read(SMALL).spec


def expression(text: str) -> str:
    """Return what is said of an expression: when it is compiled, at publication, and when it is asked."""
    try:
        program = compile_program(text)
    except ExpressionProblem as problem:
        return str(problem)
    found = evaluate(program, text, ABOUT)
    said = found.failed or str(found.holds)
    return f"{too_costly(text) or 'it may be published'}; {said}"


def policy(text: str) -> str:
    """Return what is said of a policy."""
    try:
        gates = Gates(policies=(CedarPolicy(name="own", text=text),))
    except ValidationError as error:
        return error.errors()[0]["msg"]
    spec = SPEC.model_copy(update={"gates": gates})
    found = "\n".join(sentence for _, sentence in cedar_policies.problems(spec))
    return found or "it may be published"


def pattern(text: str) -> str:
    """Return what is said of a pattern of a guardrail, and how much it finds."""
    try:
        look = NamedPattern("own", compile_pattern(text))
    except PatternProblem as problem:
        return str(problem)
    return f"{len(build_scan([look])({'text': 'a' * 20_000}))} found"


def guarded(text: str) -> str:
    """How much the shipped guardrails find in a text."""
    return f"{len(build_scan([one for rule in SHIPPED for one in compile_patterns(rule)])({'text': text}))} found"


def masked(text: str) -> str:
    """Return what is left of a text in which what the shipped guardrails find is masked."""
    return str(redact_value(text, [one for rule in SHIPPED for one in compile_patterns(rule)]))


def schema(text: str) -> str:
    """Return what is said of an output schema that is nested so deep."""
    made: dict[str, object] = {"type": "object"}
    for _ in range(int(text)):
        made = {"anyOf": [made, {"type": "null"}]}
    agents = (SPEC.agents[0].model_copy(update={"output_schema": made}), *SPEC.agents[1:])
    found = "\n".join(sentence for _, sentence in schema_problems(SPEC.model_copy(update={"agents": agents})))
    return found or "it may be published"


def attachment(text: str) -> str:
    """Return what is said of a table that a member attaches."""
    documents, problems = read_all([("a.csv", text.encode())])
    return "\n".join(map(str, problems)) or f"{len(documents)} is taken"


Rows = Mapping[str, tuple[str, str]]
CEL: Rows = {
    "six loops within each other": ("".join(f"{LIST}.all(a{n}, " for n in range(6)) + "true" + ")" * 6, "6 deep.*; it took longer than 2 seconds"),
    "two loops over a payload": ("payload.names.all(a, payload.names.all(b, a == b))", "it may be published; it took longer than 2 seconds"),
    "texts that double": ("[payload.text]" + ".map(a, a + a)" * 60 + "[0] == ''", "more memory than it may have|took longer"),
    "texts that are added": (" + ".join(["payload.text"] * 130) + " == ''", "False|more memory than it may have|took longer"),
    "loops behind comments": ("[1].all // )\n(a, " * 3 + "true" + ")" * 3, "3 deep"),
    "parentheses": ("(" * 990 + "1" + ")" * 990, "does not compile"),
    "lists": ("[" * 990 + "]" * 990, "does not compile"),
    "parentheses without an end": ("(" * 2_000, "does not compile"),
    "signs": ("!" * 1_996 + "true", "it may be published; True"),
    "a pattern that backtracks": ("payload.text.matches('(x+)+$')", "True"),
    "a pattern that is large": ("payload.text.matches('((x{1000}){1000}){1000}')", "."),
}  # fmt: skip
CEDAR: Rows = {
    "parentheses": ("permit(principal, action, resource) when { " + "(" * 4_900 + "true" + ")" * 4_900 + " };", "nested more than 32 deep"),
    "negations": ("permit(principal, action, resource) when { " + "!" * 9_000 + "true };", "does not parse"),
    "conditions": ("permit(principal, action, resource) " + "when { true } " * 690 + ";", "it may be published"),
    "sums": ("permit(principal, action, resource) when { " + "1 + " * 2_400 + "1 == 1 };", "joins more than can be read"),
    "ors": ("permit(principal, action, resource) when { " + "true||" * 1_600 + "true };", "joins more than can be read"),
    "fields": ("permit(principal, action, resource) when { context" + ".a" * 4_900 + " };", "joins more than can be read"),
    "lists": ("permit(principal, action, resource) when { " + "[" * 4_900 + "]" * 4_900 + " };", "nested more than 32 deep"),
    "conditions within each other": ("permit(principal, action, resource) when { " + "if true then true else " * 430 + "true };", "nested more than 32 deep"),
    "brackets in texts": ('permit(principal, action, resource) when { "' + "(" * 9_000 + '" == "" };', "it may be published"),
    "policies": (filled("permit(principal, action, resource);", 9_990), "holds [0-9]+ policies"),
}  # fmt: skip
PATTERN: Rows = {
    "backtracks": ("(a+)+$", "found"),
    "repeats": ("((a{1000}){1000}){1000}", "is no RE2 pattern"),
    "parentheses": ("(" * 490 + "a" + ")" * 490, "has 490 groups; at most 20"),
    "as many groups as there may be": ("(" * 20 + "a" + ")" * 20, "1 found"),
    "groups that take nothing": ("(?:" * 240 + "a" + ")" * 240, "1 found"),
    "alternatives": ("|".join(["a?a"] * 250), "found"),
}
GUARDED: Rows = {
    "another hit at each place": (numbered("{n}x@acme-corp.com", 1_000_000), "10 found"),
    "the same hit at each place": (filled("someone@acme-corp.com ", 1_000_000), "[1-9] found"),
    "keys without an end": (filled("-----BEGIN PRIVATE KEY-----\n", 1_000_000), "found"),
    "digits": (filled("4111 1111 1111 1112 ", 1_000_000), "found"),
}
MASKED: Rows = {
    "another hit at each place": (
        numbered("{n}x@acme-corp.com", 1_000_000),
        "email: at [0-9,]{6} places, so the whole text",
    ),
    "as many hits as are masked": ("x " * 400_000 + numbered("{n}x@acme-corp.com", 4_000), "x x x"),
}
SCHEMA: Rows = {"as deep as YAML may be": ("15", "it may be published")}
ATTACHED: Rows = {
    "columns": ("," * 990_000, "."),
    "quotes": ('"' * 990_000, "."),
    "a cell without an end": ('a,b\n"' + "x" * 990_000, "."),
    "rows": ("a,b\n" * 247_000, "."),
    "too long": ("a,b\n" * 2_000_000, "at most 1,000,000 are taken"),
}
ASKED: Mapping[str, tuple[Callable[[str], str], str, Rows]] = {
    "CEL": (expression, "[1].all(a, true)", CEL),
    "Cedar": (policy, "permit(principal, action, resource);", CEDAR),
    "pattern": (pattern, "b", PATTERN),
    "guardrail": (guarded, "a", GUARDED),
    "masking": (masked, "a", MASKED),
    "schema": (schema, "1", SCHEMA),
    "attachment": (attachment, "a,b\n1,2\n", ATTACHED),
}
CASES: Mapping[str, Case] = {
    f"{kind}, {name}": Case(said, harmless, *row)
    for kind, (said, harmless, rows) in ASKED.items()
    for name, row in rows.items()
}
