"""Says what the control of a field takes, where its text does not fit. The check itself knows only the file's types."""

from __future__ import annotations

from dataclasses import replace

from console.forms.controls.fields import at
from console.forms.controls.kinds import CONTROLS
from console.forms.drafts.shape import shape_of
from fabric.core.texts.wrong_values import show_value
from fabric.core.values.units import JSON
from fabric.services.fabrics.checks import CheckedText, TextFinding


def put_in_words(checked: CheckedText) -> CheckedText:
    """Return the check of a draft with the sentences of its controls."""
    if checked.tree is None:
        return checked
    tree = checked.tree.value
    return replace(checked, findings=tuple(_put_in_words(one, tree) for one in checked.findings))


def _put_in_words(finding: TextFinding, tree: JSON) -> TextFinding:
    shape = shape_of(finding.path) if finding.level == "error" and finding.path else None
    text = at(tree, finding.path) if shape is not None else None
    if shape is None or not isinstance(text, str):
        return finding
    try:
        CONTROLS[shape.kind].read(text)
    except ValueError as error:
        wrong = CONTROLS[shape.kind].wrong
        return replace(finding, sentence=f"{show_value(text)} {wrong}" if wrong else str(error))
    return finding
