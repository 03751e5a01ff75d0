"""Reads and writes FabricSpec as YAML. Errors have line, column and path, and the written text reads back as an equal
spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fabric.core.schema.paths import path_in
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.http import HEADER, VARIABLE
from fabric.core.spec.mcp import ARGUMENT
from fabric.core.spec.policies.loop_limits import sort_detectors
from fabric.core.spec.policies.stages import StagePolicy
from fabric.core.texts.wrong_values import EMPTY, describe_wrong_value, show_value
from fabric.core.values.units import JSON
from fabric.selectors.errors import Placed, Refused
from fabric.services.fabrics.yaml.nodes import write_yaml
from fabric.services.fabrics.yaml.tree import BYTES_MAX, YamlProblem, YamlTree, read_yaml

PROBLEMS_MAX = 20
"""Largest number of problems in one sentence."""
PLACED_MAX = 1_000
"""Largest number of problems with their places."""


@dataclass(frozen=True, slots=True)
class FabricProblem:
    """An error in a fabric: the path of the field and one sentence."""

    path: str
    sentence: str
    about_name: bool = False
    """True: the field's name is wrong, not its value."""


@dataclass(frozen=True, slots=True)
class FabricSource:
    """A spec as it was read, with the places of its parts."""

    spec: FabricSpec
    tree: YamlTree
    origin: str = ""
    text: str = ""
    """Text that was read."""

    def describe_problem(self, problem: FabricProblem) -> str:
        """Return a problem with its place: ``file, line 12, column 5, agents.1.model: ...``."""
        return str(self.place_problem(problem))

    def place_problem(self, problem: FabricProblem) -> Placed:
        """Return a problem and its place, apart."""
        return _place_problem(self.origin, self.tree, problem)


def fabric_read(text: str, *, origin: str = "") -> FabricSource:
    """Return the spec in a YAML text. Raises Refused with every problem; ``origin`` (a file's name) precedes each."""
    try:
        tree = read_yaml(text)
    except YamlProblem as error:
        line, column = (error.mark.line, error.mark.column) if error.mark else (None, None)
        found = Placed("", line, column, str(error), origin)
        large = len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX
        raise Refused(str(found), code="too_large" if large else "invalid", field="source", placed=(found,)) from None
    spec, problems = find_spec(tree.value)
    if spec is None:
        raise refusal(problems, tree, origin)
    return FabricSource(spec, tree, origin, text)


def find_spec(value: JSON) -> tuple[FabricSpec | None, list[FabricProblem]]:
    """Return the spec that a tree describes, or everything wrong with it: one of the two."""
    if not isinstance(value, dict):
        return None, [_NO_FABRIC]
    try:
        return FabricSpec.model_validate(value), []
    except ValidationError as error:
        return None, list_problems(error, value)


_NO_FABRIC = FabricProblem("", "a fabric is fields with values: name, title, models, agents, topology, policy")


def refusal(problems: list[FabricProblem], tree: YamlTree, origin: str) -> Refused:
    """Return the Refused for one or more problems, with at most 20 of them in its sentence."""
    placed = tuple(_place_problem(origin, tree, problem) for problem in problems[:PLACED_MAX])
    sentences = tuple(str(one) for one in placed[:PROBLEMS_MAX])
    message = sentences[0] if len(problems) == 1 else f"{len(problems)} things are wrong: {'; '.join(sentences)}"
    return Refused(message, code="invalid", field=problems[0].path, problems=sentences, placed=placed)


def _place_problem(origin: str, tree: YamlTree, problem: FabricProblem) -> Placed:
    parts = tuple(int(part) if part.isdecimal() else part for part in problem.path.split("."))
    mark = tree.mark(parts, name=problem.about_name)
    line, column = (mark.line, mark.column) if mark else (None, None)
    return Placed(problem.path, line, column, problem.sentence, origin)


# -- pydantic's errors as sentences ------------------------------------------------------------------------------------

_PLACED = re.compile(
    r"(?:^|; )(?=(?:models|tools|mcp_servers|memories|agents|topology|tiers|fan_in|gates|policy|decision_table)\b[\w.-]*: )"
)
_NAME = "is no name; use lower-case letters, digits, - and _, a letter first"
PATTERNS = {
    HEADER: "is no name of a header; use letters, digits and -, such as Authorization",
    VARIABLE: "is no name of an environment variable; use letters, digits and _, such as CRM_TOKEN",
    ARGUMENT: "has a NUL character; take it out",
}
"""Why a text is no header and the like, by the pattern that it does not fit. Other patterns are of names."""
_NO_NAME = re.compile(r"no (agent|model|tool|MCP server) is named")


def list_problems(error: ValidationError, root: JSON, at: tuple[int | str, ...] = ()) -> list[FabricProblem]:
    """Return pydantic's errors of a spec, or of its part ``at`` a path, as problems. ``root``: the whole as it was
    read.
    """
    details = error.errors()
    counted = [detail for detail in details if _counts(detail, details)]
    return [found for one in counted for found in _problems({**one, "loc": (*at, *one["loc"])}, root)]


def _counts(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Return False for a list that is reported as too short only because its item is wrong. That helps no author."""
    loc = detail["loc"]
    inside = any(len(other["loc"]) > len(loc) and other["loc"][: len(loc)] == loc for other in details)
    return not (detail["type"] == "too_short" and inside)


def _problems(detail: ErrorDetails, root: JSON) -> Iterator[FabricProblem]:
    loc = tuple(part for part in detail["loc"] if part != "[key]")
    path = path_in(root, loc)
    kind = detail["type"]
    if kind == "missing":
        yield FabricProblem(path, "is missing; give it a value")
    elif kind == "extra_forbidden":
        yield FabricProblem(path, f"there is no such field{_alike(loc)}", about_name=True)
    elif kind == "string_pattern_mismatch":
        said = PATTERNS.get(detail["ctx"]["pattern"], _NAME)
        yield FabricProblem(path, f"{show_value(detail['input'])} {said}" if detail["input"] else EMPTY)
    elif kind == "too_short":
        yield FabricProblem(path, "is empty; give at least one")
    elif kind == "union_tag_invalid":
        there = detail["ctx"]["expected_tags"].replace("'", "")
        yield FabricProblem(f"{path}.kind", f"there is no kind {show_value(detail['ctx']['tag'])}; there are: {there}")
    elif kind == "union_tag_not_found":
        yield FabricProblem(path, "does not say its kind; give `kind`")
    elif kind == "value_error":
        yield from _own(path, detail["msg"].removeprefix("Value error, "), root)
    else:
        yield FabricProblem(path, describe_wrong_value(detail))


def _own(path: str, message: str, root: JSON) -> Iterator[FabricProblem]:
    """Yield the spec's own sentences with their paths; those of a nested group begin at the group."""
    before, _, group = path.rpartition(".")
    for part in _PLACED.split(message):
        inner, found, sentence = part.partition(": ")
        if part and found and (not path or inner.startswith(f"{group}.")) and re.fullmatch(r"[\w.-]+", inner):
            yield FabricProblem(f"{before}.{inner}" if before else inner, sentence + _list_known_names(sentence, root))
        elif part:
            yield FabricProblem(path, part.removeprefix(f"{group}: "))


def _list_known_names(sentence: str, root: JSON) -> str:
    """Return the existing names, after "no model is named ..."."""
    found = _NO_NAME.search(sentence)
    if found is None:
        return ""
    items = root.get("mcp_servers" if found[1] == "MCP server" else f"{found[1]}s") or []
    names = ", ".join(str(item.get("name")) for item in items if isinstance(item, dict))
    return f"; there are: {names}" if names else f"; the fabric has no {found[1]}s"


def _alike(loc: tuple[int | str, ...]) -> str:
    """Return the permitted field that was probably meant."""
    close = get_close_matches(str(loc[-1]), _fields_at(loc[:-1]), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else "; take it out"


def _fields_at(loc: tuple[int | str, ...]) -> list[str]:
    """Return the names of the fields of the group at a path, from the schema of a fabric."""
    schema = _schema()
    node = schema
    for part in loc:
        node = _resolve_schema(schema, node)
        if "oneOf" in node:
            kinds = (_resolve_schema(schema, one) for one in node["oneOf"])
            node = next((one for one in kinds if one["properties"]["kind"].get("const") == part), {})
        elif isinstance(part, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(part) or node.get("additionalProperties", {})
    return list(_resolve_schema(schema, node).get("properties", {}))


def _resolve_schema(schema: JSON, node: JSON) -> JSON:
    """Return a part of the schema without references and without "or null"."""
    while isinstance(node, dict):
        if "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        elif "anyOf" in node:
            node = node["anyOf"][0]
        else:
            return node
    return {}


@cache
def _schema() -> JSON:
    return FabricSpec.model_json_schema()


# -- out ---------------------------------------------------------------------------------------------------------------


def fabric_dump(spec: FabricSpec) -> str:
    """Return the spec as YAML with every budget and limit. ``fabric_read`` reads it back as an equal spec; equal
    specs give equal bytes.
    """
    return write_yaml(_tree(spec))


def _tree(value: Any) -> JSON:
    """Return the fields in the spec's order under their authors' names. None is left out, since it is always a field's
    default.
    """
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        named = ((field.alias or name, getattr(value, name)) for name, field in fields.items())
        found = {name: _tree(item) for name, item in named if item is not None}
        # Values that a stage inherits from the fabric are not written out: the fabric's may be raised later.
        return {name: item for name, item in found.items() if item != {}} if isinstance(value, StagePolicy) else found
    if isinstance(value, dict):
        return {str(key): _tree(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [_tree(item) for item in value]
    if isinstance(value, frozenset):
        return sort_detectors(value)  # The only sets of a fabric are of detectors.
    if isinstance(value, Enum):
        return value.value
    return value
