"""Names a path of a draft in the words of the forms. ``agents.2.model`` is *reader · Model*, where the third agent is
called reader.
"""

from __future__ import annotations

from console.forms.controls.fields import Shape, at
from console.forms.controls.kinds import HOLDING
from console.forms.drafts.shape import shape_of
from console.templatetags.marks import FAILURES, TIERS
from fabric.core.values.units import JSON

ONE = {
    "briefs": "Brief",
    "conditions": "Condition",
    "expectations": "Expectation",
    "procedure": "Item",
    "transitions": "Rule",
}
"""The word for one thing of a list without names, by the list's field."""


def subject(path: str, tree: JSON) -> str:
    """Return the names of the things on the way, then the field's label. Empty: the whole text, or a place that no
    fabric has.
    """
    asked, shape = path, (shape_of(path) if path else None)
    while path and shape is None:  # Within a value that is edited as one.
        path = path.rpartition(".")[0]
        shape = shape_of(path) if path else None
    if shape is None or (path != asked and shape.kind in HOLDING):
        return ""
    parts = path.split(".")
    named: list[str] = []
    around: Shape | None = None
    for end, part in enumerate(parts, 1):
        if around is not None and around.kind in ("items", "table"):
            named.append(_called(part, at(tree, ".".join(parts[:end])), around))
        around = shape_of(".".join(parts[:end]))
    last = "" if shape.place.endswith(".*") else shape.label
    return " · ".join(one for one in (*named, last) if one)


def _called(part: str, item: JSON, listed: Shape) -> str:
    """Its own name, the word for its key, or its place in the list."""
    own = item.get("name") if isinstance(item, dict) else None
    if isinstance(own, str) and own:
        return own
    if not part.isdecimal():
        return FAILURES.get(part) or TIERS.get(part) or part.replace("_", " ")
    return f"{ONE.get(listed.place.rpartition('.')[2], listed.label)} {int(part) + 1}"
