"""Cases of what people and programs send: YAML, JSON, DOT, OpenAPI, schedules, templates."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from console.api.middleware import read_json
from console.site.errors.problems import Problem
from fabric.core.texts import templates
from fabric.core.texts.text import JSON_CHARS_MAX, parse_json_object
from fabric.core.values.units import JSON
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.edits import EditProblem, PutEdit, text_edited
from fabric.services.fabrics.yaml.tree import YamlProblem
from fabric.services.importers.fabro.dot import DotProblem, dot_read
from fabric.services.importers.openapi.document import BYTES_MAX, read_document
from fabric.services.importers.openapi.operations import build_tools
from simulator.drills.schedules.crontab import when
from simulator.texts.json_paths import find_values, parse_path
from tests.fabric.services.world import SMALL
from tests.hostile.measured import Case
from tests.hostile.texts import GOOD, MOST, filled, numbered, scenario


def fabric(text: str) -> str:
    """Return what is said of a fabric's YAML."""
    try:
        fabric_read(text)
    except Refused as refused:
        return "\n".join(refused.problems)
    return "it can be read"


def body(text: str) -> str:
    """Return what is said of the body of a request."""
    try:
        read_json(text.encode(), "application/json")
    except Problem as problem:
        return str(problem)
    return "it can be read"


def answer(text: str) -> str:
    """Return what is said of a model's answer."""
    return parse_json_object(text)[1] or "it can be read"


def dot(text: str) -> str:
    """Return what is said of a graph."""
    try:
        dot_read(text)
    except DotProblem as problem:
        return str(problem)
    return "it can be read"


def edit(text: str) -> str:
    """The answer to an edit of a YAML text."""
    try:
        text_edited(text, [PutEdit(("new",), 1)])
    except (YamlProblem, EditProblem) as problem:
        return str(problem)
    return "it can be edited"


def json_path(text: str) -> str:
    """The answer to a path that is followed in a large value."""
    value: JSON = {}
    for _ in range(60):
        value = {"a": value, "many": list(range(150))}
    try:
        found = find_values(parse_path(text), value)
    except ValueError as problem:
        return str(problem)
    return f"{len(found)} values"


def openapi(text: str) -> str:
    """Return what is said of an API's document, and of what becomes of it."""
    try:
        build_tools(read_document(text, origin="api"))
    except Refused as refused:
        return refused.message
    return "it can be read"


def schedule(text: str) -> str:
    """Return what is said of a time."""
    try:
        return str(when(text).find_next(0))
    except Refused as refused:
        return refused.message


def template(text: str) -> str:
    """Return what is said of an address with places."""
    return "\n".join(templates.problems(text)) or "it can be read"


Rows = Mapping[str, tuple[str, str]]
YAML: Rows = {
    "depth": (filled("[", MOST - 2), "nested deeper than 32 levels"),
    "depth in blocks": ("\n".join(" " * n + f"k{n}:" for n in range(700)), "nested deeper than 32 levels"),
    "values": (f"[{filled('0,', MOST - 10)}]", "more than 10,000 values"),
    "keys": (numbered("k{n}: 0"), "more than 10,000 values"),
    "as many keys as there may be": (numbered("k{n}: 0", 50_000), "k0|is missing"),
    "laughs": ("a: &a [x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "anchor|alias"),
    "merge": ("a: {<<: {b: 1}}\n", "<<"),
    "digits": (f"a: {filled('9', MOST - 10)}", "a"),
    "a text": (f'a: "{filled("x", MOST - 10)}"', "a"),
    "escapes": (f'a: "{filled(chr(92) + "n", MOST - 10)}"', "a"),
    "a text without an end": (f'a: "{filled("x ", MOST - 10)}', "a"),
    "quotes": (filled("'", MOST), "."),
    "question marks": (filled("? ", MOST), "."),
    "exclamation marks": (filled("!", MOST), "."),
    "comments": (filled("#\n", MOST), "."),
    "too long": ("#" * (MOST + 1), "bytes"),
}
BODY: Rows = {
    "depth": (filled("[", 500_000), "nested deeper than 64 levels"),
    "values": (f"[{filled('0,', 500_000)}0]", "more than 20,000 values"),
    "digits": (filled("9", 500_000), "more than 400 characters"),
    "a text": (f'"{filled("x", 500_000)}"', "it can be read"),
    "quotes": (filled('"', 500_000), "more than 20,000|no JSON"),
    "backslashes": ('"' + filled("\\", 500_000), "no JSON"),
    "white space": (filled(" ", 500_000), "no JSON"),
}
ANSWER: Rows = {
    "depth": (filled('{"a":', JSON_CHARS_MAX - 10), "nested deeper than 64"),
    "objects without an end": (filled("{", JSON_CHARS_MAX - 10), "."),
    "many objects": (filled("{} ", JSON_CHARS_MAX - 10), "."),
    "digits": ('{"a": ' + filled("9", JSON_CHARS_MAX - 10) + "}", "digits"),
    "quotes": ("{" + filled('"', JSON_CHARS_MAX - 10), "."),
    "too long": ("{" + filled(" ", JSON_CHARS_MAX) + "}", "at most 2000000"),
}
EXPERIMENT: Rows = {
    "depth": ('{"a": ' + filled("[", MOST - 10), "nested too deeply"),
    "values": ('{"a": [' + filled("0,", MOST - 20) + "0]}", "."),
    "digits": ('{"a": ' + filled("9", MOST - 10) + "}", "more digits than are read"),
    "keys": ("{" + numbered('"k{n}": 0,').rstrip(",") + "}", "is missing"),
}
DOT: Rows = {
    "subgraphs": ("digraph { " + filled("subgraph {", MOST - 20), "nested deeper than 16 levels"),
    "edges": ("digraph { " + filled("a->b;", MOST - 20) + "}", "more than 4000 nodes or edges"),
    "nodes": ("digraph { " + numbered("n{n};", MOST - 20) + "}", "more than 4000 nodes or edges"),
    "groups to groups": ("digraph { {" + numbered("a{n};", 30_000) + "} -> {" + numbered("b{n};", 30_000) + "} }", "more than"),
    "attributes": ("digraph { a [" + filled("b=c,", MOST - 20) + "] }", "it can be read"),
    "a text without an end": ('digraph { a [b="' + filled("x", MOST - 20), "."),
    "comments without an end": ("digraph { " + filled("/*", MOST - 20), "."),
    "quotes": ("digraph { " + filled('"', MOST - 20), "."),
}  # fmt: skip
EDIT: Rows = {
    "comments": ("a: 1\n" + filled("# c\n", MOST - 20), "."),
    "comments between fields": (numbered("k{n}: 0 # c\n# d\n\n", 60_000), "."),
    "as many values as there may be": (numbered("k{n}: 0\n", 40_000), "."),
    "flow style over lines": ("a: [" + filled("0, # c\n", 30_000) + "]", "."),
    "a long text": ("a: '" + filled("x", MOST - 20) + "'", "it can be edited"),
}
JSON_PATH: Rows = {
    "descents": ("$..*..*..*", "more than 2 steps"),
    "two descents": ("$..*..*", "more than 10,000 values"),
    "two descents that find nothing": ("$..*..nothing", "0 values"),
    "parentheses": ("$[?" + "(" * 98 + "@.a" + ")" * 96, "cannot be read|values"),
    "tests in tests": ("$" + "[?@" * 49 + "]" * 49, "."),
    "backtracking": ("$[?match(@.a, '(a|a)*b')]", "is not defined"),
    "too long": ("$" + filled(".a", MOST), "at most 200 are read"),
}
OPENAPI: Rows = {
    "depth": ('{"openapi": "3.1.0", "a": ' + filled("[", BYTES_MAX - 40), "nested deeper than 64 levels"),
    "depth in YAML": ("openapi: 3.1.0\na: " + filled("[", 100_000), "nested deeper than 64 levels"),
    "values": ('{"a": [' + filled("[],", BYTES_MAX - 20) + "0]}", "more than 300,000 values"),
    "fields": ("{" + numbered('"k{n}": 0,', BYTES_MAX - 20) + '"k": 0}', "more than 300,000 values"),
    "values in YAML": ("a: [" + filled("0,", BYTES_MAX - 20) + "]", "more than 50,000 values"),
    "as many values as there may be": ("{" + numbered('"k{n}": 0,', 3_000_000) + '"k": 0}', "openapi: is missing"),
    "as many values of YAML as there may be": ("a: [" + "0," * 49_900 + "]", "openapi: is missing"),
    "laughs": ("a: &a [x]\nb: [*a]\n", "aliases"),
    "digits": ('{"a": ' + filled("9", BYTES_MAX - 10) + "}", "api"),
    "references in a ring": (
        json.dumps({"openapi": "3.1.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "#/p/a"}]}}},
                    "p": {"a": {"$ref": "#/p/b"}, "b": {"$ref": "#/p/a"}}}), "."),
}  # fmt: skip
SCHEDULE: Rows = {
    "never": ("0 0 30 2 *", "."),
    "lists": ("," * 99, "five fields"),
    "steps": ("*/1,*/1,*/1,*/1 0-23/1,0-23 1-31 1-12 0-6", "."),
    "numbers": (f"{'9' * 80} * * * *", "."),
    "too long": (filled("* ", MOST), "five fields"),
}
TEMPLATE: Rows = {
    "places": (filled("{a}", 1_000), "is no place"),
    "braces": (filled("{", 1_000), "it can be read"),
    "dots": ("{a" + filled(".a", 900) + "}", "it can be read"),
}
READERS: Mapping[str, tuple[Callable[[str], str], str, Rows]] = {
    "YAML": (fabric, SMALL, YAML),
    "body": (body, "{}", BODY),
    "answer": (answer, "{}", ANSWER),
    "experiment": (scenario, GOOD, EXPERIMENT),
    "DOT": (dot, "digraph {}", DOT),
    "YAML edit": (edit, SMALL, EDIT),
    "JSONPath": (json_path, "$.a", JSON_PATH),
    "OpenAPI": (openapi, '{"openapi": "3.1.0", "paths": {}}', OPENAPI),
    "schedule": (schedule, "0 3 * * *", SCHEDULE),
    "template": (template, "{outcome.text}", TEMPLATE),
}
CASES: Mapping[str, Case] = {
    f"{kind}, {name}": Case(said, harmless, *row)
    for kind, (said, harmless, rows) in READERS.items()
    for name, row in rows.items()
}
