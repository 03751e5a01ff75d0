"""Rows of keys and values in a form: the labels of a run, as a browser sends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms

from console.site.sentences import sentence
from fabric.core.values.labels import KEY_CHARS_MAX, LABELS_MAX, VALUE_CHARS_MAX, BadLabel, gather_labels
from fabric.selectors.errors import Refused
from fabric.services.runs.labels import clean_labels

OPEN_ROWS = 3
"""Rows that a form shows unfolded, if no more are filled in."""
SENT_MAX = 4 * LABELS_MAX
"""Rows beyond these are not shown again."""
HINT = (
    f"Up to {LABELS_MAX} labels, such as team = ops. A key has at most {KEY_CHARS_MAX} lower-case letters, digits, -, _ and .; "
    f"a value at most {VALUE_CHARS_MAX} characters. Everyone who sees the run sees them, so leave secrets out."
)


class _LabelRows(forms.Widget):
    sent_as = ("label_key", "label_value")
    """Names of its inputs, which come once for each row."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[tuple[str, str]]:
        pairs = zip(*map(data.getlist, self.sent_as), strict=False)
        return [(key.strip(), value.strip()) for key, value in pairs if key.strip() or value.strip()]


class LabelsField(forms.Field):
    """Labels in rows; empty rows count for nothing."""

    widget = _LabelRows

    def clean(self, value: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Return the labels by key. Raises ValidationError with the sentence that commands and the API say too."""
        try:
            return clean_labels(gather_labels(value))
        except BadLabel as error:
            raise forms.ValidationError(sentence(str(error))) from None
        except Refused as refusal:
            raise forms.ValidationError(sentence(refusal.message)) from None


class LabelsForm(forms.Form):
    """All labels of a run."""

    labels = LabelsField(required=False)


@dataclass(frozen=True, slots=True)
class LabelRow:
    """A row of the form."""

    number: int
    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class LabelRows:
    """Rows of the form: those that are open, and those that are folded."""

    open: tuple[LabelRow, ...]
    folded: tuple[LabelRow, ...]
    errors: Sequence[str]
    hint: str = HINT


def list_label_rows(form: forms.Form) -> LabelRows:
    """Return the rows of a form's labels, filled in from what was sent, or else from its initial value."""
    value = form["labels"].value() or ()
    pairs = list(value.items()) if isinstance(value, Mapping) else list(value)[:SENT_MAX]
    rows = [LabelRow(number, *pair) for number, pair in enumerate(pairs, start=1)]
    rows += [LabelRow(number) for number in range(len(rows) + 1, LABELS_MAX + 1)]
    shown = max(OPEN_ROWS, len(pairs) + 1)
    return LabelRows(tuple(rows[:shown]), tuple(rows[shown:]), [str(one) for one in form["labels"].errors])
