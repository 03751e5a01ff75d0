"""Fields of a draft: what each is given, what it inherits, and what may be picked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from console.forms.controls.fields import MISSING, EditField, Missing, Shape, at, shown
from console.forms.controls.kinds import HOLDING, SEVERAL
from console.forms.controls.rows import ROW_KINDS, list_rows
from console.forms.drafts.places import TEAM, source_of
from console.forms.drafts.shape import place_of, shape_of
from console.templatetags.figures import span
from fabric.core.spec.memories import OFFERED, tool_name
from fabric.core.spec.policies.breakers import PRESETS, UNNAMED
from fabric.core.spec.policies.decision_table import DEFAULT_TABLE
from fabric.core.spec.policies.limits import DEADLINES
from fabric.core.spec.policies.loop_limits import LOOP_NAMES
from fabric.core.spec.topologies.conversation import BY_KIND
from fabric.core.values.units import JSON
from fabric.services.fabrics.checks import TextFinding
from fabric.services.fabrics.yaml.tree import Path


def standing(tree: JSON, path: str) -> JSON:
    """Return the value in force at a path where the draft has none, from the engine's own defaults.

    The nearest part around it that the draft leaves out is filled in.
    """
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        whole = ".".join(parts[:end])
        if end < len(parts) and at(tree, whole) not in (MISSING, None):
            break
        if (filled := _filled(tree, whole)) is not MISSING:
            held = at(filled, ".".join(parts[end:]))
            if held is not MISSING:
                return held
            break
    if parts[:2] == ["policy", "breakers"] and len(parts) > 3 and (preset := _preset(tree, parts)) is not MISSING:
        return preset
    if parts[:2] == ["policy", "stages"] and len(parts) > 3:
        return _of_fabric(tree, parts[3:])
    if parts[:3] == ["policy", "budget", "agents"] and len(parts) == 5:
        of_all = at(tree, f"policy.budget.agent_{parts[4]}")
        return None if of_all is MISSING else of_all
    if parts[:3] == ["policy", "budget", "stages"] and len(parts) == 5:
        of_all = at(tree, f"policy.budget.stage_{parts[4]}")
        return None if of_all is MISSING else of_all
    shape = shape_of(path)
    return MISSING if shape is None else shape.default


def _of_fabric(tree: JSON, parts: list[str]) -> JSON:
    """Return the fabric's value where a stage has none of its own."""
    path = ".".join(("policy", *parts))
    given = at(tree, path)
    return standing(tree, path) if isinstance(given, Missing) else given


def _preset(tree: JSON, parts: list[str]) -> JSON:
    """Return the value of a breaker's preset; ``MISSING`` where it names none, or the preset has none."""
    named = at(tree, ".".join((*parts[:3], "preset")))
    preset = PRESETS.get(named) if isinstance(named, str) else None
    return MISSING if preset is None else at(preset().model_dump(mode="json"), ".".join(parts[3:]))


def _filled(tree: JSON, path: str) -> JSON:
    """The default of a place whose parts only make sense together; ``MISSING`` for all others."""
    parts = path.split(".")
    if parts[0] == "topology" and parts[-1] == "passes" and place_of(path) in _PASSES:
        workers = at(tree, ".".join((*parts[:-1], "workers")))
        named = [one for one in workers if isinstance(one, str)] if isinstance(workers, list) else []
        return {one: [other for other in named if other != one] for one in named}
    if parts[:2] == ["policy", "stages"] and len(parts) == 6 and parts[3] == "decision_table":
        cell = ".".join(parts[3:])
        given = at(tree, cell)
        return _filled(tree, cell) if isinstance(given, Missing) else given
    if len(parts) == 3 and parts[0] == "decision_table":
        found = {f"{failure}.{tier}": ladder for (failure, tier), ladder in DEFAULT_TABLE.items()}
        ladder = found.get(f"{parts[1]}.{parts[2]}")
        return MISSING if ladder is None else ladder.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    if len(parts) == 3 and parts[:2] == ["policy", "deadlines"]:
        deadlines = {str(tier): one for tier, one in DEADLINES.items()}.get(parts[2])
        return MISSING if deadlines is None else deadlines.model_dump(mode="json")
    if path == "policy.breakers":
        return [one.model_dump(mode="json", exclude_defaults=True) for one in UNNAMED]
    return MISSING


_PASSES = frozenset({"topology.passes", f"{TEAM}topology.passes"})
"""Places of hand-overs. All agents may hand over until one is named; then all must be named."""


def whole_of(tree: JSON, path: str) -> tuple[str, JSON] | None:
    """Return the place around a path that has to be written out before the path can be, with its value. None where
    there is no such place.
    """
    parts = path.split(".")
    for end in range(1, len(parts)):
        whole = ".".join(parts[:end])
        if at(tree, whole) in (MISSING, None) and (filled := _filled(tree, whole)) is not MISSING:
            return whole, filled
    return None


def named_in(tree: JSON, listed: str) -> tuple[str, ...]:
    """Return the names of the things in one of the draft's lists. Tools include those that the engine makes of memories
    and of conversations.
    """
    items = at(tree, listed)
    found = [item["name"] for item in items if _has_name(item)] if isinstance(items, list) else []
    if listed == "tools" and isinstance(memories := at(tree, "memories"), list):
        found += [tool_name(verb, one["name"]) for one in memories if _has_name(one) for verb in OFFERED]
    if listed == "tools":
        kinds = [_kind_of(at(tree, "topology"))]
        teams = at(tree, "topology.teams")
        kinds += [_kind_of(at(one, "topology")) for one in teams.values()] if isinstance(teams, dict) else []
        found += dict.fromkeys(name for kind in kinds for name in BY_KIND.get(kind, ()))
    return tuple(found)


def names_at(tree: JSON, place: list[str], path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each name that stands at a place, with its path; ``**`` stands for conditions within conditions."""
    if not place:
        for n, one in enumerate(tree) if isinstance(tree, list) else ():
            yield from names_at(one, [], (*path, n))
        if isinstance(tree, str):
            yield path, tree
    elif place[0] == "**":
        yield from names_at(tree, place[1:], path)
        for field, rest in (("conditions", ["*", *place]), ("condition", place)):
            yield from names_at(tree, [field, *rest], path)
    elif place[0] == "*":
        inside = enumerate(tree) if isinstance(tree, list) else tree.items() if isinstance(tree, dict) else ()
        for part, one in inside:
            yield from names_at(one, place[1:], (*path, part))
    elif isinstance(tree, dict) and place[0] in tree:
        yield from names_at(tree[place[0]], place[1:], (*path, place[0]))


def _kind_of(topology: JSON) -> str:
    return str(topology.get("kind")) if isinstance(topology, dict) else ""


def _has_name(item: JSON) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def field_at(
    tree: JSON,
    path: str,
    *,
    base: JSON = None,
    findings: Iterable[TextFinding] = (),
    words: Mapping[str, str] | None = None,
) -> EditField:
    """The field of one path. ``base``: the tree that the draft began with; ``words``: for what may be picked. KeyError:
    there is no such place.
    """
    shape = shape_of(path)
    if shape is None:
        raise KeyError(path)
    about, value = ROW_KINDS.get(shape.kind), at(tree, path)
    if about is not None and value is not MISSING and list_rows(about, value) is None:
        shape = replace(shape, kind="json")
    given, was = at(tree, path), at(base, path) if base is not None else MISSING
    inherited = standing(tree, path)
    return EditField(
        path=path,
        shape=shape,
        given=given,
        inherited=inherited,
        was=was,
        inside=whole_of(tree, path) is not None,
        spared=_spared(tree, path),
        options=_options(tree, shape, given, words or {}),
        spelled=spelled(given, shape.unit),
        default_spelled=spelled(inherited, shape.unit),
        findings=tuple(one for one in findings if one.path == path or _inside(one.path, path, shape)),
    )


_SENTENCES: Mapping[str, str] = {name: one.sentence for name, one in LOOP_NAMES.items()}


def _spared(tree: JSON, path: str) -> bool:
    around = path.rpartition(".")[0]
    shape = shape_of(around) if around else None
    return shape is not None and shape.nullable and at(tree, around) in (MISSING, None)


def _options(tree: JSON, shape: Shape, given: JSON, said: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the choices, and the present picks that are none of them: they stay until the author takes them out."""
    source = source_of(shape.place)
    if source is not None:
        found = dict(source(tree))
    elif shape.refers:
        found = {one: one for one in named_in(tree, shape.refers)}
    else:
        found = {one: _SENTENCES.get(one, one.replace("_", " ")) for one in shape.options}
    if found or shape.refers or source is not None:
        for one in given if isinstance(given, list) else [given]:
            if not isinstance(one, Missing) and one is not None and (text := _picked(shape, one)):
                found.setdefault(text, text)
    return tuple((one, said.get(one, word)) for one, word in found.items())


def _picked(shape: Shape, value: JSON) -> str:
    """A picked value as its control has it."""
    return str(value) if shape.kind in SEVERAL else shown(shape.kind, value)


def _inside(about: str, path: str, shape: Shape) -> bool:
    """Return True where a finding is about a part of a value that is edited as a whole."""
    return shape.kind not in HOLDING and about.startswith(f"{path}.")


_SECONDS = 120
"""From how many on they are said in minutes, hours and days."""
_THOUSANDS = 10_000
"""From here on a number is said with its thousands set apart."""
_BEYOND = 10**12
"""From here on it is a slip, and not worth words."""


def spelled(value: JSON, unit: str) -> str:
    """Return a large number of that unit as people say it: 86400 s is *1 d*. Empty where it is plain enough
    as it is.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not _SECONDS <= value < _BEYOND:
        return ""
    if unit == "s":
        return span(round(value * 1_000_000))
    return f"{value:,}" if isinstance(value, int) and not unit.startswith("USD") and value >= _THOUSANDS else ""
