"""Forms: what a browser sent, read into values or into errors beside the fields. What is allowed is the services' to
say; the sentences are theirs.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from console.forms.labels import LabelsField
from console.forms.values.form import MARK, TypedForm
from console.site.sentences import sentence
from fabric.adapters.documents.attachments import BYTES_MAX, FILE_BYTES_MAX, FILES_MAX, TOTAL_BYTES_MAX, read_all
from fabric.core.reviews.raised_cap import CAPS_MAX, MOST_TOKENS
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.texts.text import parse_json_object
from fabric.core.texts.three_way import same
from fabric.models import Priority
from fabric.runtime.ports.journal import Document
from fabric.selectors.fabrics.lookup import FabricView
from fabric.services.reviews.decisions import MESSAGE_CHARS_MAX
from fabric.services.runs.start import KEY_CHARS_MAX, REASON_CHARS_MAX, TEXT_BYTES_MAX


def new_start_key() -> str:
    """A key for one filled-in form: sent twice, by a double click or a reload, it starts one run."""
    return f"page-{secrets.token_urlsafe(12)}"


VALUE_CHARS_MAX = 1_000_000
"""Largest size of an edited output."""


class _Files(forms.ClearableFileInput):
    allow_multiple_selected = True


class _Documents(forms.FileField):
    """Several files; Django's own field takes the last of them."""

    widget = _Files

    def clean(self, data: Any, initial: Any = None) -> tuple[Document, ...]:
        """Every file that is not taken, with its reason; else the documents."""
        files: Sequence[UploadedFile] = [one for one in (data or ()) if one]
        documents, problems = read_all([(one.name or "", one.read()) for one in files])
        if problems:
            # Each begins with its file's name, which stays as it is.
            raise forms.ValidationError([f"{problem}." for problem in problems])
        return documents


class StartForm(forms.Form):
    """A run to be started."""

    fabric = forms.CharField(max_length=63, error_messages={"required": "Pick a fabric."})
    text = forms.CharField(
        strip=True, error_messages={"required": "The request is empty: write what the agents should do."}
    )
    documents = _Documents(required=False)
    documents_of = forms.CharField(max_length=64, required=False)
    example_of = forms.CharField(max_length=64, required=False)
    tier = forms.CharField(max_length=32, required=False)
    priority = forms.CharField(max_length=32, required=False)
    session_key = forms.CharField(strip=True, required=False)
    labels = LabelsField(required=False)
    start_key = forms.CharField(max_length=64, required=False)

    def __init__(self, fabrics: Sequence[FabricView], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fabrics = {fabric.name: fabric for fabric in fabrics}

    def clean_fabric(self) -> str:
        """One of the published ones."""
        name: str = self.cleaned_data["fabric"]
        if name not in self.fabrics:
            raise forms.ValidationError("There is no such fabric (any more): pick one of these.")
        return name

    def clean_text(self) -> str:
        """Not too long."""
        text: str = self.cleaned_data["text"]
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > TEXT_BYTES_MAX:
            raise forms.ValidationError(
                f"The request has {size:,} bytes; at most {TEXT_BYTES_MAX:,} are taken: attach long texts as files."
            )
        return text

    def clean_priority(self) -> str:
        """One of the four, or none."""
        priority: str = self.cleaned_data["priority"]
        if priority and priority not in Priority.labels:
            raise forms.ValidationError(f"There is no such priority; there are: {', '.join(Priority.labels)}.")
        return priority

    def clean_session_key(self) -> str:
        """Not too long."""
        key: str = self.cleaned_data["session_key"]
        if len(key) > KEY_CHARS_MAX:
            raise forms.ValidationError(
                f"The session has {len(key):,} characters; at most {KEY_CHARS_MAX} are taken: use a shorter name."
            )
        return key

    def clean(self) -> dict[str, Any]:
        """The tier is one that the fabric allows."""
        cleaned = super().clean() or {}
        if self.errors.keys() & {"start_key", "documents_of", "example_of"}:
            self.add_error(None, "The form was damaged on its way: reload the page and send it again.")
        fabric, tier = self.fabrics.get(cleaned.get("fabric", "")), cleaned.get("tier")
        if fabric is not None and tier and tier not in fabric.tiers:
            allowed = ", ".join(fabric.tiers)
            self.add_error("tier", f"{fabric.title} does not run in that tier; it allows: {allowed}.")
        return cleaned

    @staticmethod
    def files_hint() -> str:
        """Return a sentence on the files that may be attached."""
        return (
            f"PDF, Word (.docx), Excel (.xlsx), CSV and text (.txt, .md, .json, .html ...): up to {FILES_MAX} files, texts of {BYTES_MAX // 1_000_000} MB, "
            f"others of {FILE_BYTES_MAX // 1_000_000} MB, {TOTAL_BYTES_MAX // 1_000_000} MB together. The run’s page shows the text that was read."
        )


def money_field() -> forms.DecimalField:
    """Dollars, to the millionth."""
    return forms.DecimalField(
        required=False,
        decimal_places=6,
        max_digits=15,
        error_messages={
            "invalid": "Give the new cap in dollars, such as 2.50.",
            "max_decimal_places": "A millionth of a dollar is the smallest part: give six decimals at most.",
        },
    )


def tokens_field() -> forms.IntegerField:
    """A number of tokens."""
    return forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_TOKENS,
        error_messages={"invalid": "Give the new cap as a whole number of tokens, such as 20000."},
    )


class DecisionForm(forms.Form):
    """An answer to a review."""

    verb = forms.CharField(max_length=16, error_messages={"required": "Pick an answer."})
    digest = forms.CharField(max_length=128, required=False)
    message = forms.CharField(strip=True, required=False)
    edited = forms.CharField(strip=True, required=False)
    cap_usd = money_field()

    model = forms.CharField(max_length=63, required=False)
    """The other model, where its box was ticked."""
    tool = forms.CharField(max_length=63, required=False)
    """Another tool that is to be called in place of the one that is shown."""
    instead = forms.CharField(strip=True, required=False)
    """The arguments of that call, as JSON."""

    def __init__(
        self,
        *args: Any,
        shown: Any = None,
        schema: Mapping[str, Any] | None = None,
        written: Any = None,
        caps: Sequence[Mapping[str, Any]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.shown = shown
        """Content of the review, which an edit replaces."""
        self.typed = TypedForm(schema, shown, self.data if self.is_bound else None, written)
        """That content field by field; None where it does not fit into fields."""
        self.caps = {f"cap_{n}": one for n, one in enumerate(caps[:CAPS_MAX])}
        """The caps that the review offers beside the run's money, by the name of their field."""
        for name, one in self.caps.items():
            self.fields[name] = money_field() if one["unit"] == "usd_micros" else tokens_field()

    @property
    def cap_fields(self) -> list[tuple[forms.BoundField, Mapping[str, Any]]]:
        """Their fields, each with the cap that it is of."""
        return [(self[name], one) for name, one in self.caps.items()]

    def clean_message(self) -> str:
        """Not too long."""
        message: str = self.cleaned_data["message"]
        if len(message) > MESSAGE_CHARS_MAX:
            raise forms.ValidationError(
                f"The message has {len(message):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken: make it shorter."
            )
        return message

    @property
    def by_field(self) -> bool:
        """Return True where it was sent field by field."""
        return bool(self.data.get(MARK)) and bool(self.typed.parts)

    @property
    def fits(self) -> bool:
        """Return True where it is shown field by field. A value that was sent as JSON stands there as it
        was written.
        """
        return bool(self.typed.parts) and not ("edited" in self.data and not self.by_field)

    def clean(self) -> dict[str, Any]:
        """Check that an edit is a JSON object. An approval takes no changed value: it would approve something else."""
        cleaned = super().clean() or {}
        verb = cleaned.get("verb")
        value, written = self._written(cleaned)
        if verb == "approve" and written and not same(value, self.shown):
            self.add_error("edited", "You changed the content: pick Edit to send yours, or restore it.")
        cleaned["value"] = value
        cap = cleaned.get("cap_usd")
        cleaned["cap_usd_micros"] = int(cap * 1_000_000) if cap is not None and verb == "approve" else None
        cleaned["caps"] = self._caps(cleaned) if verb == "approve" else ()
        cleaned["model"] = cleaned.get("model", "") if verb == "approve" else ""
        cleaned["tool"] = cleaned.get("tool", "") if verb == "edit" else ""
        return cleaned

    def _written(self, cleaned: Mapping[str, Any]) -> tuple[Any, bool]:
        """Return the value in place of the shown one, and True where anything was written at all."""
        verb = cleaned.get("verb")
        if cleaned.get("tool"):
            return self._instead(cleaned), True
        if self.by_field:
            if verb == "edit" and self.typed.wrong:
                self.add_error("edited", "Something in your edit cannot be read: see the fields that are marked.")
            elif verb == "edit" and not self.typed.changed:
                self.add_error("edited", "You changed nothing: change a field, or pick another answer.")
            return self.typed.value, True
        text = cleaned.get("edited", "")
        value, problem = parse_json_object(text, strict=True) if text else (None, "")
        if verb == "edit" and value is None:
            wanted = problem or "a JSON object is wanted"
            self.add_error("edited", sentence(wanted.replace("the answer", "the text", 1)))
        return value, bool(text)

    def _instead(self, cleaned: Mapping[str, Any]) -> Any:
        """Return the arguments that another tool is to be called with."""
        if cleaned.get("verb") == "approve":
            self.add_error("tool", "You picked another tool: pick Edit to call it, or pick no tool.")
        value, problem = parse_json_object(cleaned.get("instead", "") or "{}", strict=True)
        if cleaned.get("verb") == "edit" and value is None:
            self.add_error("instead", sentence(problem.replace("the answer", "the text", 1)))
        return value

    def _caps(self, cleaned: Mapping[str, Any]) -> tuple[NamedCap, ...]:
        found = []
        for name, one in self.caps.items():
            amount = cleaned.get(name)
            if amount is not None:
                unit = one["unit"]
                found.append(NamedCap(one["scope"], unit, int(amount * (1_000_000 if unit == "usd_micros" else 1))))
        return tuple(found)


class ForkForm(forms.Form):
    """A new run that goes on from an event of another one."""

    what = forms.ChoiceField(required=False, error_messages={"invalid_choice": "That cannot be edited at this event."})
    value = forms.CharField(strip=False, required=False, max_length=VALUE_CHARS_MAX)
    start_key = forms.CharField(
        max_length=KEY_CHARS_MAX,
        error_messages={"required": "The form was damaged on its way: reload the page and send it again."},
    )

    def clean(self) -> dict[str, Any]:
        """Check that an edited part has a text."""
        cleaned = super().clean() or {}
        if cleaned.get("what") and not cleaned.get("value", "").strip():
            self.add_error("value", "Write the new value.")
        return cleaned


class SayForm(forms.Form):
    """A message to the conversation of a run."""

    text = forms.CharField(strip=True, required=False)
    start_key = forms.CharField(max_length=KEY_CHARS_MAX, required=False)


class ContextForm(forms.Form):
    """A context variable that is written or deleted."""

    name = forms.CharField(strip=True, required=False)
    value = forms.CharField(strip=False, required=False)
    delete = forms.BooleanField(required=False)

    def clean_name(self) -> str:
        """Some name."""
        name: str = self.cleaned_data["name"]
        if not name:
            raise forms.ValidationError("Name the variable.")
        return name

    def clean(self) -> dict[str, Any]:
        """A value, or the wish to delete, and not both."""
        given = super().clean() or {}
        if given.get("delete") and given.get("value"):
            self.add_error("value", "Leave the value empty to delete the variable, or take the tick away to write it.")
        elif not given.get("delete") and not given.get("value"):
            self.add_error("value", 'Give a value: JSON such as true, 5 or "", else it is taken as text.')
        return given

    @property
    def written(self) -> Any:
        """The value: JSON, else the text as it stands."""
        text: str = self.cleaned_data["value"]
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text


class ReasonForm(forms.Form):
    """A person's reason for taking hold of a run."""

    reason = forms.CharField(strip=True, required=False)

    def clean_reason(self) -> str:
        """Not too long."""
        reason: str = self.cleaned_data["reason"]
        if len(reason) > REASON_CHARS_MAX:
            raise forms.ValidationError(
                f"The reason has {len(reason):,} characters; at most {REASON_CHARS_MAX:,} are taken: make it shorter."
            )
        return reason
