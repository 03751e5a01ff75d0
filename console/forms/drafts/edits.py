"""The edits of a draft: what follows from a field or a button, beside the value itself.

A button is a word and a path: those of every list, ``reset policy.tau``, ``set tiers.default=batch``, ``append
topology.workers=ana``, ``turn gates.oracle.0=critic``, ``declare mcp_servers.0``, ``drop
tools.0.headers_from=Authorization``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pydantic import ValidationError

from console.forms.controls import edits as engine
from console.forms.controls.edits import ButtonProblem, Changes, Ground, Sent
from console.forms.controls.fields import MISSING, EditField, at, path_of, read
from console.forms.controls.rows import list_rows
from console.forms.drafts.beginnings import BEFORE_LAST, fresh
from console.forms.drafts.fields import field_at, named_in, names_at, standing, whole_of
from console.forms.drafts.places import KEYED, REFERS, SPARE
from console.forms.drafts.shape import place_of, shape_of
from console.forms.drafts.variants import FOLLOWS, FORMS, followed, team_of, turned
from fabric.core.spec.mcp import McpServer
from fabric.core.values.units import JSON
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.edits import DropEdit, Edit, InsertEdit, PutEdit, tree_edited
from fabric.services.fabrics.yaml.tree import Path
from fabric.services.importers.mcp import build_offers
from fabric.services.importers.tool_declarations import dump_given
from fabric.services.installation import facts as here

WITHIN_S = 20.0
"""The most seconds that a page waits for a server's greeting."""


class DraftGround(Ground):
    """The rules of a draft. A renamed place is renamed everywhere, and a group of another kind begins anew."""

    def field(self, tree: JSON, path: str) -> EditField:
        """Return the field at a path."""
        return field_at(tree, path)

    def read(self, one: EditField, sent: list[str]) -> JSON:
        """Return what was sent; a text that does not fit stays a text."""
        return read(one.shape, sent)

    def comes_first(self, path: str) -> bool:
        """Names come last: what is sent under a name that is given up moves with it."""
        shape = shape_of(path)
        return shape is None or shape.kind != "name"

    def fresh(self, tree: JSON, path: str) -> tuple[int, JSON]:
        """Return a new thing, at the end of its list or before what stays the last."""
        items = at(tree, path)
        length = len(items) if isinstance(items, list) else 0
        return max(0, length - 1) if place_of(path) in BEFORE_LAST else length, fresh(tree, path)

    def optional(self, tree: JSON, path: str) -> bool:
        """Return True where an empty list means as much as none: it goes with its last item."""
        return standing(tree_edited(tree, [DropEdit(path_of(path))]), path) in (None, [])

    def whole(self, tree: JSON, path: str) -> list[Edit]:
        """Return the edit that writes out the default that a path is a part of."""
        return [PutEdit(path_of(whole[0]), whole[1])] if (whole := whole_of(tree, path)) is not None else []

    def put(self, tree: JSON, path: str, one: EditField, value: JSON) -> list[Edit]:
        """Return the edits of a field, and what follows: other names, other fields of its group."""
        renamed = list(_references(tree, path, one.given, value)) if one.shape.kind == "name" else []
        edits = [*super().put(tree, path, one, value), *renamed]
        around, _, field = path.rpartition(".")
        if field == "kind":
            return [*edits, *followed(tree_edited(tree, edits), path_of(around))]
        follows = FOLLOWS.get(path)
        return edits if follows is None else [*edits, *follows(tree_edited(tree, edits))]

    def dropped(self, tree: JSON, path: str) -> list[Edit]:
        """Take a value away, and the groups around it that are empty then and need not be there."""
        return _dropped(tree, path_of(path))

    def pressed(self, tree: JSON, button: str) -> tuple[list[Edit], str]:
        """Return the edits of a button, and what they are in words. Raises ButtonProblem."""
        word, _, rest = button.partition(" ")
        made = BUTTONS.get(word)
        if made is None:
            raise ButtonProblem(f"there is no button {word[:20]!r}; there are: {', '.join(BUTTONS)}")
        path = rest.partition("=")[0]
        if shape_of(path) is None or not path:
            raise ButtonProblem(f"a fabric has no place {path[:80]!r}")
        edits = made(self, tree, rest)
        return [*edits, *_settled(tree_edited(tree, edits), path)], f"{word} {path}"


GROUND = DraftGround()


def changes_in(tree: JSON, data: Sent, button: str = "", since: JSON = None) -> Changes:
    """Return the changes of a page of the editor, as edits. Raise ButtonProblem, EditProblem."""
    return engine.changes_in(GROUND, tree, data, button, since)


def _dropped(tree: JSON, parts: Path) -> list[Edit]:
    """Takes a value away, and the groups around it that are empty then and need not be there."""
    dotted = [".".join(map(str, parts[:end])) for end in range(1, len(parts) + 1)]
    if at(tree, dotted[-1]) is MISSING:
        return []
    end = len(parts)
    while end > 1 and isinstance(parts[end - 1], str):
        around, shape = at(tree, dotted[end - 2]), shape_of(dotted[end - 2])
        if not (isinstance(around, dict) and len(around) == 1 and isinstance(parts[end - 2], str)):
            break
        named = end > 2 and place_of(dotted[end - 3]) in {*KEYED, *SPARE}
        if shape is None or (shape.required and shape.kind != "table" and not named):
            break
        end -= 1
    return [DropEdit(parts[:end])]


def _references(tree: JSON, path: str, old: JSON, new: JSON) -> Iterator[Edit]:
    """Yield edits of the places that name a renamed thing, unless another thing has the new name too."""
    listed, _, rest = path.partition(".")
    if not (rest.count(".") == 1 and isinstance(old, str) and isinstance(new, str) and old):
        return
    names = named_in(tree, listed)
    if names.count(old) > 1 or new in names:
        return
    edits: list[Edit] = [
        PutEdit(place, new)
        for named, refers in REFERS.items()
        if refers == listed
        for place, name in names_at(tree, named.split("."))
        if name == old
    ]
    yield from edits
    now = tree_edited(tree, edits)
    for place, refers in KEYED.items():
        table = at(now, place)
        if refers == listed and isinstance(table, dict) and old in table and new not in table:
            yield PutEdit((*path_of(place), new), table[old])
            yield DropEdit((*path_of(place), old))


# -- buttons -----------------------------------------------------------------------------------------------------------


def _settled(tree: JSON, path: str) -> list[Edit]:
    """A ladder after a rung has come, gone or moved: the last one is without bound, and no other is."""
    whole, _, number = path.rpartition(".")
    rungs = path if place_of(path) in BEFORE_LAST else whole if number.isdecimal() else ""
    found = at(tree, rungs) if rungs and place_of(rungs) in BEFORE_LAST else None
    listed: list[JSON] = found if isinstance(found, list) else []
    edits: list[Edit] = []
    for n, rung in enumerate(listed):
        bounded, last = isinstance(rung, dict) and rung.get("times") is not None, n == len(listed) - 1
        if last and bounded:
            edits.append(DropEdit((*path_of(rungs), n, "times")))
        elif not last and isinstance(rung, dict) and not bounded:
            edits.append(PutEdit((*path_of(rungs), n, "times"), 1))
    return edits


def _reset(ground: Ground, tree: JSON, path: str) -> list[Edit]:
    return ground.dropped(tree, path)


def _set(ground: Ground, tree: JSON, rest: str) -> list[Edit]:
    path, _, text = rest.partition("=")
    one = ground.field(tree, path)
    return Ground.put(ground, tree, path, one, ground.read(one, [text]))


def _append(ground: Ground, tree: JSON, rest: str) -> list[Edit]:
    """One more name at the end of a list of names."""
    path, _, text = rest.partition("=")
    items = at(tree, path)
    return [InsertEdit((*path_of(path), len(items) if isinstance(items, list) else 0), text)] if text else []


def _drop(ground: Ground, tree: JSON, rest: str) -> list[Edit]:
    """One row less, by its name."""
    path, _, name = rest.partition("=")
    one = ground.field(tree, path)
    rows = list_rows(one.row_kind, one.given) if one.in_rows and one.given is not MISSING else None
    if not rows:
        raise ButtonProblem(f"there are no rows at {path[:80]}: they were taken away meanwhile")
    about = one.row_kind
    kept = {cells[about.key]: cells for cells in rows if cells[about.key] != name}
    return Ground.put(ground, tree, path, one, about.make(one.given, kept) or MISSING)


def _turn(ground: Ground, tree: JSON, rest: str) -> list[Edit]:
    path, _, name = rest.partition("=")
    forms = FORMS.get(place_of(path), {})
    if name not in forms:
        raise ButtonProblem(f"{path} has no form {name[:20]!r}; it has: {', '.join(forms) or 'one alone'}")
    return turned(tree, path_of(path), name)


def _lead(ground: Ground, tree: JSON, path: str) -> list[Edit]:
    """A team for a worker, under its name."""
    lead = path.rpartition(".")[2]
    return [PutEdit(path_of(path), team_of(tree, lead))] if at(tree, path) is MISSING else []


def _declare(ground: Ground, tree: JSON, path: str) -> list[Edit]:
    """Declare what the server at a path offers and no tool of the draft is yet. Refused where that is nothing."""
    if place_of(path) != "mcp_servers.*":
        raise ButtonProblem(f"{path[:80]} is no MCP server, which could be asked what it offers")
    try:
        server = McpServer.model_validate(at(tree, path))
    except ValidationError:
        raise Refused("this server has errors: fix them, then list its tools", code="invalid") from None
    asked = server.model_copy(update={"connect_s": min(server.connect_s, WITHIN_S)})
    where = here.installation()
    found = build_offers(asked, where.gate, where.permits, taken=named_in(tree, "tools")).tools
    listed = at(tree, "tools")
    tools = listed if isinstance(listed, list) else []
    known = {one.get("target") for one in tools if isinstance(one, dict) and one.get("kind") == "mcp"}
    new = [one.tool for one in found if one.tool.target not in known]
    if not new:
        raise Refused(f"every tool that {server.name!r} offers is declared already, or none can be", code="invalid")
    return [InsertEdit(("tools", len(tools) + n), dump_given(tool)) for n, tool in enumerate(new)]


BUTTONS: Mapping[str, Callable[[Ground, JSON, str], list[Edit]]] = {
    **engine.BUTTONS,
    "reset": _reset,
    "set": _set,
    "append": _append,
    "turn": _turn,
    "drop": _drop,
    "lead": _lead,
    "declare": _declare,
}
"""The effect of each button on the draft; a path follows its word."""
