"""Reads the fabrics that come with the product: templates for new ones, and samples."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

from fabric.core.people.actor import Actor
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.tree import ModelSpec
from fabric.http.transport import Gate, is_loopback
from fabric.models import Fabric
from fabric.services.errors import Refused
from fabric.services.fabrics.checks import check_text
from fabric.services.fabrics.revisions import fabric_publish_read
from fabric.services.fabrics.yaml.document import fabric_read
from fabric.services.fabrics.yaml.edits import DropEdit, Edit, PutEdit, text_edited
from fabric.services.fabrics.yaml.tree import read_yaml
from fabric.services.installation.facts import InstallationFacts

FOLDER = Path(__file__).resolve().parents[2] / "templates"
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
"""Offered files of the folder, without their ending; a test shows that all files are listed."""
FOUR_EYES = "policy.humans.four_eyes"
_LATER = "Put this line back as soon as two people can approve."


@dataclass(frozen=True, slots=True)
class Template:
    """One template."""

    name: str
    text: str
    spec: FabricSpec
    """Content of the file; values that depend on the installation are not in it."""


@dataclass(frozen=True, slots=True)
class TemplateText:
    """A template's text as the beginning of a fabric."""

    text: str
    notes: tuple[str, ...]
    """Differences from the file with their reasons, one sentence each."""


@cache
def templates() -> tuple[Template, ...]:
    """Return all templates, in the order of their offer."""
    found = ((name, (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")) for name in TEMPLATES)
    return tuple(Template(name, text, fabric_read(text, origin=f"{name}.yaml").spec) for name, text in found)


def template_get(name: str) -> Template:
    """Return one template by name. Raises Refused not_found with the existing names."""
    for one in templates():
        if one.name == name:
            return one
    raise Refused(
        f"there is no template {name[:80]!r}; there are: {', '.join(TEMPLATES)}", code="not_found", field="template"
    )


def template_begun(template: Template, where: InstallationFacts, *, name: str, title: str = "") -> TemplateText:
    """Return a template's text under a fabric's name and title. Empty: its own title. The installation's model replaces
    the template's, if there is one.
    """
    text, notes = template.text, []
    named: list[Edit] = [PutEdit(("name",), name)]
    if title:
        named.append(PutEdit(("title",), title))
    text = text_edited(text, named)
    if where.default_model:
        text, note = _replace_model(text, template.spec, where)
        notes.append(note)
    if any(one.path == FOUR_EYES for one in check_text(text, where).errors):
        text = _commented_out(text)
        notes.append("Two people cannot approve here yet, so that four eyes are left out: invite a second person first")
    return TemplateText(text, tuple(notes))


def _replace_model(text: str, spec: FabricSpec, where: InstallationFacts) -> tuple[str, str]:
    """Replace the scripted models by the operator's, at the price of the list or the address."""
    own = ModelSpec(name="own", provider="openai")
    local, priced = (
        is_loopback(where.default_url),
        where.price(own),
    )
    edits: list[Edit] = []
    for n, model in enumerate(spec.models):
        edits.append(PutEdit(("models", n, "provider"), "openai"))
        if model.options:
            edits.append(DropEdit(("models", n, "options")))
        if not local:
            edits.append(DropEdit(("models", n, "price")))
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


SAMPLES = Path(__file__).resolve().parents[2] / "samples"


@cache
def list_example_files(name: str) -> tuple[tuple[str, bytes], ...]:
    """Return the documents of a sample's example, name and content each, by name. Other fabrics have none."""
    if name not in {path.stem for path in SAMPLES.glob("*.yaml")}:
        return ()
    return tuple((path.name, path.read_bytes()) for path in sorted((SAMPLES / name).glob("*")))


@dataclass(frozen=True, slots=True)
class SamplesPublished:
    """Names of the new samples, and of those that were left out, each with the reason."""

    names: list[str]
    left_out: dict[str, str]


def samples_publish(*, actor: Actor, providers: Collection[str] = ()) -> SamplesPublished:
    """Publish each sample whose name the workspace lacks. Fabrics that users made of a sample stay as they are.

    A sample whose tools need an address that FABRIC_ALLOWED_HOSTS does not list waits until it does.
    """
    gate = Gate.trust_hosts(settings.FABRIC_ALLOWED_HOSTS)
    there = set(Fabric.objects.filter(workspace_id=actor.workspace_id).values_list("name", flat=True))
    found = SamplesPublished([], {})
    for path in sorted(SAMPLES.glob("*.yaml"), key=lambda path: path.stem):
        if path.stem in there:  # Their files are named after them: what is there already costs a start nothing.
            continue
        read = fabric_read(path.read_text(encoding="utf-8"), origin=path.name)
        problems = [gate.problem(tool.target) for tool in read.spec.tools if tool.kind == "http"]
        if reason := next(filter(None, problems), ""):
            found.left_out[path.stem] = reason
        else:
            found.names.append(fabric_publish_read(actor=actor, read=read, providers=providers).name)
    return found
