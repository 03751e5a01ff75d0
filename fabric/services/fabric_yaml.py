"""FabricSpec as YAML, in and out: what cannot be read is told with line, column and path; what is written reads back as the same spec."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from fabric.core.loop_names import sort_detectors
from fabric.core.spec import FabricSpec
from fabric.core.spec_paths import path_in
from fabric.core.stage_policy import StagePolicy
from fabric.core.wrong_values import describe_wrong_value, show_value
from fabric.selectors.errors import Placed, Refused
from fabric.services.yaml_tree import BYTES_MAX, Tree, YamlProblem, read_yaml

JSON = Any
PROBLEMS_MAX = 20
"""Most that one sentence tells."""
PLACED_MAX = 1_000
"""Most that are told with their places."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a fabric: the path of the field and one sentence about it."""

    path: str
    sentence: str
    about_name: bool = False
    """True: it is the field's name that is wrong, not its value."""


@dataclass(frozen=True, slots=True)
class Source:
    """A spec as it was read, and where its parts stand."""

    spec: FabricSpec
    tree: Tree
    origin: str = ""
    text: str = ""
    """What was read."""

    def told(self, problem: Problem) -> str:
        """A problem with its place: ``file, line 12, column 5, agents.1.model: ...``."""
        return str(self.placed(problem))

    def placed(self, problem: Problem) -> Placed:
        """A problem and its place, apart."""
        return _placed(self.origin, self.tree, problem)


def fabric_read(text: str, *, origin: str = "") -> Source:
    """The spec in a YAML text. Raises Refused with every problem that was found; ``origin`` (a file's name) goes before each."""
    try:
        tree = read_yaml(text)
    except YamlProblem as error:
        line, column = (error.mark.line, error.mark.column) if error.mark else (None, None)
        found = Placed("", line, column, str(error), origin)
        large = len(text.encode("utf-8", "surrogatepass")) > BYTES_MAX
        raise Refused(str(found), code="too_large" if large else "invalid", field="source", placed=(found,)) from None
    spec, problems = spec_of(tree.value)
    if spec is None:
        raise refusal(problems, tree, origin)
    return Source(spec, tree, origin, text)


def spec_of(value: JSON) -> tuple[FabricSpec | None, list[Problem]]:
    """The spec that a tree describes, or everything that is wrong with the tree: one of the two."""
    if not isinstance(value, dict):
        return None, [_NO_FABRIC]
    try:
        return FabricSpec.model_validate(value), []
    except ValidationError as error:
        return None, problems_of(error, value)


_NO_FABRIC = Problem("", "a fabric is fields with values: name, title, models, agents, topology, policy")


def refusal(problems: list[Problem], tree: Tree, origin: str) -> Refused:
    """The Refused for one or more problems, at most 20 of them told in its sentence."""
    placed = tuple(_placed(origin, tree, problem) for problem in problems[:PLACED_MAX])
    sentences = tuple(str(one) for one in placed[:PROBLEMS_MAX])
    message = sentences[0] if len(problems) == 1 else f"{len(problems)} things are wrong: {'; '.join(sentences)}"
    return Refused(message, code="invalid", field=problems[0].path, problems=sentences, placed=placed)


def _placed(origin: str, tree: Tree, problem: Problem) -> Placed:
    parts = tuple(int(part) if part.isdecimal() else part for part in problem.path.split("."))
    mark = tree.mark(parts, name=problem.about_name)
    line, column = (mark.line, mark.column) if mark else (None, None)
    return Placed(problem.path, line, column, problem.sentence, origin)


# -- what pydantic says, as sentences ----------------------------------------------------------------------------------

_PLACED = re.compile(
    r"(?:^|; )(?=(?:models|tools|mcp_servers|memories|agents|topology|tiers|fan_in|gates|policy|decision_table)\b[\w.-]*: )"
)
_NO_NAME = re.compile(r"no (agent|model|tool|MCP server) is named")


def problems_of(error: ValidationError, root: JSON, at: tuple[int | str, ...] = ()) -> list[Problem]:
    """What pydantic says of a spec, or of its part that stands ``at`` a path. ``root``: the whole as it was read."""
    details = error.errors()
    counted = [detail for detail in details if _counts(detail, details)]
    return [found for one in counted for found in _problems({**one, "loc": (*at, *one["loc"])}, root)]


def _counts(detail: ErrorDetails, details: list[ErrorDetails]) -> bool:
    """Whether an error is one of its own: a list whose only item is wrong is called too short besides, which helps nobody."""
    loc = detail["loc"]
    inside = any(len(other["loc"]) > len(loc) and other["loc"][: len(loc)] == loc for other in details)
    return not (detail["type"] == "too_short" and inside)


def _problems(detail: ErrorDetails, root: JSON) -> Iterator[Problem]:
    loc = tuple(part for part in detail["loc"] if part != "[key]")
    path = path_in(root, loc)
    kind = detail["type"]
    if kind == "missing":
        yield Problem(path, "is missing; give it a value")
    elif kind == "extra_forbidden":
        yield Problem(path, f"there is no such field{_alike(loc)}", about_name=True)
    elif kind == "string_pattern_mismatch":
        yield Problem(
            path, f"{show_value(detail['input'])} is no name; use lower-case letters, digits, - and _, a letter first"
        )
    elif kind == "too_short":
        yield Problem(path, "is empty; give at least one")
    elif kind == "union_tag_invalid":
        there = detail["ctx"]["expected_tags"].replace("'", "")
        yield Problem(f"{path}.kind", f"there is no kind {show_value(detail['ctx']['tag'])}; there are: {there}")
    elif kind == "union_tag_not_found":
        yield Problem(path, "does not say its kind; give `kind`")
    elif kind == "value_error":
        yield from _own(path, detail["msg"].removeprefix("Value error, "), root)
    else:
        yield Problem(path, describe_wrong_value(detail))


def _own(path: str, message: str, root: JSON) -> Iterator[Problem]:
    """The spec's own sentences, which name their paths themselves where they are about several; of a group that stands in another, from the group on."""
    before, _, group = path.rpartition(".")
    for part in _PLACED.split(message):
        inner, found, sentence = part.partition(": ")
        if part and found and (not path or inner.startswith(f"{group}.")) and re.fullmatch(r"[\w.-]+", inner):
            yield Problem(f"{before}.{inner}" if before else inner, sentence + _known(sentence, root))
        elif part:
            yield Problem(path, part.removeprefix(f"{group}: "))


def _known(sentence: str, root: JSON) -> str:
    """The names there are, after "no model is named ..."."""
    found = _NO_NAME.search(sentence)
    if found is None:
        return ""
    items = root.get("mcp_servers" if found[1] == "MCP server" else f"{found[1]}s") or []
    names = ", ".join(str(item.get("name")) for item in items if isinstance(item, dict))
    return f"; there are: {names}" if names else f"; the fabric has no {found[1]}s"


def _alike(loc: tuple[int | str, ...]) -> str:
    """The field that was probably meant, among those that may stand there."""
    close = get_close_matches(str(loc[-1]), _fields_at(loc[:-1]), n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else "; take it out"


def _fields_at(loc: tuple[int | str, ...]) -> list[str]:
    """Names of the fields of the group at a path, from the schema of a fabric."""
    schema = _schema()
    node = schema
    for part in loc:
        node = _resolved(schema, node)
        if "oneOf" in node:
            kinds = (_resolved(schema, one) for one in node["oneOf"])
            node = next((one for one in kinds if one["properties"]["kind"].get("const") == part), {})
        elif isinstance(part, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(part) or node.get("additionalProperties", {})
    return list(_resolved(schema, node).get("properties", {}))


def _resolved(schema: JSON, node: JSON) -> JSON:
    """A part of the schema itself, behind references and behind "or null"."""
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
    """The spec as YAML, every budget and limit written out: what ``fabric_read`` reads back as an equal spec. Equal specs give equal bytes."""
    yaml = YAML(typ="rt")
    yaml.default_flow_style = False
    yaml.width = 2**16
    yaml.indent(mapping=2, sequence=4, offset=2)
    out = io.StringIO()
    yaml.dump(_tree(spec), out)
    return out.getvalue()


def _tree(value: Any) -> JSON:
    """Fields in the spec's order under the names an author writes; what is None is left out, for None is always a field's default."""
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        named = ((field.alias or name, getattr(value, name)) for name, field in fields.items())
        found = {name: _tree(item) for name, item in named if item is not None}
        # What a stage leaves to the fabric is not written out: the fabric's value holds, and may be raised later.
        return {name: item for name, item in found.items() if item != {}} if isinstance(value, StagePolicy) else found
    if isinstance(value, dict):
        return {str(key): _tree(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [_tree(item) for item in value]
    if isinstance(value, frozenset):
        return sort_detectors(value)  # The only sets of a fabric are of detectors.
    if isinstance(value, Enum):
        return value.value
    return LiteralScalarString(value) if isinstance(value, str) and "\n" in value else value
