"""The templates that a new fabric may begin with: YAML files that come with the product, each a fabric that can be published as it stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fabric.adapters.tools.outbound import is_loopback
from fabric.core.spec import FabricSpec, ModelSpec
from fabric.services.checking import checked
from fabric.services.errors import Refused
from fabric.services.fabric_yaml import fabric_read
from fabric.services.publication import Installation
from fabric.services.yaml_edit import Drop, Edit, Put, text_edited
from fabric.services.yaml_tree import read_yaml

FOLDER = Path(__file__).resolve().parents[1] / "templates"
TEMPLATES = (
    "research",
    "team-research",
    "debate",
    "procedure",
    "handover",
    "routing",
    "document-check",
    "extraction",
    "payment-approval",
    "batch-digest",
    "blank",
)
"""Files of the folder without their ending, as they are offered: all that there are, by test."""
FOUR_EYES = "policy.humans.four_eyes"
_LATER = "Put this line back as soon as two people can approve."


@dataclass(frozen=True, slots=True)
class Template:
    """One of them."""

    name: str
    text: str
    spec: FabricSpec
    """As it stands in the file: what depends on the installation is not in it."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A template's text as a fabric here begins with it."""

    text: str
    notes: tuple[str, ...]
    """What is otherwise than in the file, and why: a sentence each."""


@cache
def templates() -> tuple[Template, ...]:
    """All of them, in the order in which they are offered."""
    found = ((name, (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")) for name in TEMPLATES)
    return tuple(Template(name, text, fabric_read(text, origin=f"{name}.yaml").spec) for name, text in found)


def template_get(name: str) -> Template:
    """One by name. Raises Refused not_found, with the names that there are."""
    for one in templates():
        if one.name == name:
            return one
    raise Refused(
        f"there is no template {name[:80]!r}; there are: {', '.join(TEMPLATES)}", code="not_found", field="template"
    )


def template_begun(template: Template, where: Installation, *, name: str, title: str = "") -> Begun:
    """Its text under a fabric's name and title (empty: its own), with the installation's own model where there is one."""
    text, notes = template.text, []
    named: list[Edit] = [Put(("name",), name)]
    if title:
        named.append(Put(("title",), title))
    text = text_edited(text, named)
    if where.default_model:
        text, note = _with_model(text, template.spec, where)
        notes.append(note)
    if any(one.path == FOUR_EYES for one in checked(text, where).errors):
        text = _commented_out(text)
        notes.append("Two people cannot approve here yet, so that four eyes are left out: invite a second person first")
    return Begun(text, tuple(notes))


def _with_model(text: str, spec: FabricSpec, where: Installation) -> tuple[str, str]:
    """The scripted models are the operator's, at the price that the list or the address says."""
    own = ModelSpec(name="own", provider="openai")
    local, priced = (
        is_loopback(where.default_url),
        where.price(own),
    )
    edits: list[Edit] = []
    for n, model in enumerate(spec.models):
        edits.append(Put(("models", n, "provider"), "openai"))
        if model.options:
            edits.append(Drop(("models", n, "options")))
        if not local:
            edits.append(Drop(("models", n, "price")))
    said = f"Its agents think with {where.default_model} (FABRIC_MODEL)"
    if local:
        said += ", which is on this machine: its price is 0 until you write another"
    elif priced is None:
        said += ": no price of it is known, so write one before you publish"
    return text_edited(text, edits), said


def _commented_out(text: str) -> str:
    mark = read_yaml(text).keys[tuple(FOUR_EYES.split("."))]
    lines = text.splitlines(keepends=True)
    line, indent = lines[mark.line - 1].strip(), " " * (mark.column - 1)
    lines[mark.line - 1] = f"{indent}# {_LATER}\n{indent}# {line}\n"
    return "".join(lines)
