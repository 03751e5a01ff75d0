"""Fields of a draft: what each is given, what it inherits, and what stands in its control (``reading.py`` reads that back)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from console.configure.places import TEAM, Kind
from console.configure.reading import SEVERAL
from console.configure.shape import MISSING, Missing, Shape, place_of, shape_of
from console.configure.sources import source_of
from console.configure.spelled import spelled
from console.typed_fields import same
from fabric.core.breaker.policy import PRESETS, UNNAMED
from fabric.core.decision_table import DEFAULT_TABLE
from fabric.core.loop_names import LOOP_NAMES
from fabric.core.policy import DEADLINES
from fabric.core.spec_conversation import BY_KIND
from fabric.core.spec_memories import OFFERED, tool_name
from fabric.services.checking import Finding

JSON = Any
FIELD, SHOWN = "f.", "p."
"""Before the path in the names of controls. ``p.`` says that a control with several answers was shown: none ticked sends nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditField:
    """One place of a draft as it is edited."""

    path: str
    shape: Shape
    given: JSON
    """What the draft says there; ``MISSING``: nothing."""
    inherited: JSON
    """What holds where the draft says nothing; ``MISSING``: something has to be said."""
    was: JSON = MISSING
    """What the draft began with."""
    inside: bool = False
    """Whether it is a part of a default that only makes sense as a whole: a rung of a cell that nobody has changed."""
    spared: bool = False
    """Whether it is a part of a group that may be left out, and is."""
    options: tuple[tuple[str, str], ...] = ()
    """What may be picked: value and word."""
    findings: tuple[Finding, ...] = field(default=())

    @property
    def name(self) -> str:
        """Of its control, and its id."""
        return f"{FIELD}{self.path}"

    @property
    def text(self) -> str:
        """What stands in its control; nothing where the draft says nothing, unless that is a part of a default that holds as a whole."""
        value = self.inherited if self.inside and isinstance(self.given, Missing) else self.given
        return shown(self.shape.kind, value)

    @property
    def picked(self) -> tuple[str, ...]:
        """What is picked, where that is several."""
        value = self.inherited if isinstance(self.given, Missing) else self.given
        return tuple(str(one) for one in value) if isinstance(value, list) else ()

    @property
    def placeholder(self) -> str:
        """What holds where nothing is given, in the words of its control."""
        return self._show(self.inherited)

    @property
    def own(self) -> bool:
        """Whether the draft says something else than what would hold anyway."""
        return not isinstance(self.given, Missing) and not _alike(self.given, self.inherited)

    @property
    def required(self) -> bool:
        """Whether it has to be said: what is a part of something that may be left out, and is, has not."""
        return self.shape.required and not self.spared

    @property
    def missing(self) -> bool:
        """Whether something has to be said and is not."""
        return isinstance(self.given, Missing) and isinstance(self.inherited, Missing) and self.required

    @property
    def spelled(self) -> str:
        """What the draft says, where that is a large number, in words."""
        return spelled(self.given, self.shape.unit)

    @property
    def default_spelled(self) -> str:
        """What holds where nothing is given, where that is a large number, in words."""
        return spelled(self.inherited, self.shape.unit)

    @property
    def default_word(self) -> str:
        """What holds where nothing is picked, in the words of what may be."""
        words = {**dict(self.options), "true": "yes", "false": "no"}
        return words.get(self.placeholder, self.placeholder)

    @property
    def changed(self) -> bool:
        """Whether it is another than the draft began with."""
        return not _alike(self.given, self.was)

    @property
    def before(self) -> str:
        """What the draft began with, in words."""
        value = self.inherited if isinstance(self.was, Missing) else self.was
        return "not given" if isinstance(value, Missing) or value is None else self._show(value) or "empty"

    def _show(self, value: JSON) -> str:
        """A value as its control has it, or what is picked of several in words."""
        if self.shape.kind not in SEVERAL or not isinstance(value, list):
            return shown(self.shape.kind, value)
        if self.shape.options and set(map(str, value)) == set(self.shape.options):
            return "all"
        return ", ".join(str(one).replace("_", " ") if self.shape.options else str(one) for one in value) or "none"

    @property
    def wrong(self) -> bool:
        """Whether an error is about it."""
        return any(one.level == "error" for one in self.findings)

    @property
    def rows(self) -> int:
        """Lines of its control, where it has several."""
        least = 2 if self.shape.kind == "lines" else 3
        return min(18, max(least, sum(1 + len(line) // 96 for line in self.text.split("\n"))))


def _alike(one: JSON, other: JSON) -> bool:
    if isinstance(one, Missing) or isinstance(other, Missing):
        return one is other
    return same(one, other)


def at(tree: JSON, path: str) -> JSON:
    """What a tree has at a dotted path; ``MISSING``: nothing."""
    for part in path.split(".") if path else ():
        if isinstance(tree, dict) and part in tree:
            tree = tree[part]
        elif isinstance(tree, list) and part.isdecimal() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return MISSING
    return tree


def standing(tree: JSON, path: str) -> JSON:
    """What holds at a path where the draft says nothing: the nearest thing that it does not say, filled in from the engine's own defaults."""
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
    """What the fabric says where a stage says nothing of its own."""
    path = ".".join(("policy", *parts))
    given = at(tree, path)
    return standing(tree, path) if isinstance(given, Missing) else given


def _preset(tree: JSON, parts: list[str]) -> JSON:
    """What the preset of a breaker says there; ``MISSING``: it has none, or that says nothing."""
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
"""Who may pass on to whom: everybody to everybody, until it is said of one, and then it has to be said of all."""


def whole_of(tree: JSON, path: str) -> tuple[str, JSON] | None:
    """The place around a path that has to be written out before the path itself can be, with what is to stand there; None: nothing has to."""
    parts = path.split(".")
    for end in range(1, len(parts)):
        whole = ".".join(parts[:end])
        if at(tree, whole) in (MISSING, None) and (filled := _filled(tree, whole)) is not MISSING:
            return whole, filled
    return None


def named_in(tree: JSON, listed: str) -> tuple[str, ...]:
    """The names of the things in one of the draft's lists; of tools with those that the engine makes of memories and of conversations."""
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


def _kind_of(topology: JSON) -> str:
    return str(topology.get("kind")) if isinstance(topology, dict) else ""


def _has_name(item: JSON) -> bool:
    return isinstance(item, dict) and isinstance(item.get("name"), str)


def field_at(
    tree: JSON,
    path: str,
    *,
    base: JSON = None,
    findings: Iterable[Finding] = (),
    words: Mapping[str, str] | None = None,
) -> EditField:
    """The field of one path. ``base``: the tree that the draft began with; ``words``: for what may be picked. KeyError: there is no such place."""
    shape = shape_of(path)
    if shape is None:
        raise KeyError(path)
    given, was = at(tree, path), at(base, path) if base is not None else MISSING
    return EditField(
        path=path,
        shape=shape,
        given=given,
        inherited=standing(tree, path),
        was=was,
        inside=whole_of(tree, path) is not None,
        spared=_spared(tree, path),
        options=_options(tree, shape, given, words or {}),
        findings=tuple(one for one in findings if one.path == path or _inside(one.path, path, shape)),
    )


_SENTENCES: Mapping[str, str] = {name: one.sentence for name, one in LOOP_NAMES.items()}


def _spared(tree: JSON, path: str) -> bool:
    around = path.rpartition(".")[0]
    shape = shape_of(around) if around else None
    return shape is not None and shape.nullable and at(tree, around) in (MISSING, None)


def _options(tree: JSON, shape: Shape, given: JSON, said: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What may be picked, and what is picked all the same: it stays until somebody takes it out."""
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
    """Whether a finding is about a part of a value that is edited as a whole."""
    return shape.kind not in ("group", "items", "table") and about.startswith(f"{path}.")


# -- what stands in a control ------------------------------------------------------------------------------------------


def shown(kind: Kind, value: JSON) -> str:
    """A value as the text of its control. What is of no type that fits stands there as it is, so that it can be mended."""
    if isinstance(value, Missing) or value is None:
        return ""
    if kind == "usd" and isinstance(value, int) and not isinstance(value, bool):
        return dollars(value)
    if kind == "lines" and isinstance(value, list):
        return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in value)
    if kind == "numbers" and isinstance(value, list):
        return ", ".join(str(one) if isinstance(one, str) else json.dumps(one) for one in value)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == "number" and isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, indent=2 if kind == "json" else None)


def dollars(micros: int) -> str:
    """Micro-dollars as dollars, at least two places and no more than are needed."""
    amount = Decimal(micros) / 1_000_000
    text = format(amount.normalize(), "f")
    whole, _, part = text.partition(".")
    return f"{whole}.{part.ljust(2, '0')}"
