"""Checks labels of runs at the start, and sets or removes them later. That is for people who may start such runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.labels import BadLabel, check_key, check_labels
from fabric.models import RunLabel
from fabric.selectors.contents import mask_content
from fabric.selectors.runs.lookup import run_get
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted


def clean_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels as they are stored, by key. Raises Refused invalid for one that is not taken."""
    with refuse_bad_label():
        checked = check_labels({key: clean_text(value)[0] for key, value in labels.items()})
    for key, value in checked.items():
        if mask_content(value) != value:
            message = f"the value of label {key} looks like a credential, and every reader of the run would see it; leave it out"
            raise Refused(message, code="invalid", field="labels")
    return checked


@contextmanager
def refuse_bad_label() -> Iterator[None]:
    """Turn BadLabel into Refused invalid of the field ``labels``."""
    try:
        yield
    except BadLabel as error:
        raise Refused(str(error), code="invalid", field="labels") from None


def run_label(*, actor: Actor, run_id: str, set: Mapping[str, str], delete: Sequence[str] = ()) -> dict[str, str]:  # noqa: A002 - as variables are set
    """Set labels of a run and remove others, and return all that it has then. Its child runs have the same ones.

    A key that the run does not have is removed without an error. Nothing is recorded where nothing changes. Raises
    Refused: forbidden, not_found, invalid (a label, or none is named), conflict (a child run).
    """
    run = run_get(actor, run_id)
    right_wanted(actor.place_at(run.fabric_name), Right.RUN, "label runs")
    if run.root_run_id is not None:
        message = f"a child run has its root run's labels; change those of run {run.root_run_id}"
        raise Refused(message, code="conflict", field="run")
    given = clean_labels(set)
    with refuse_bad_label():
        removed = [check_key(key) for key in delete]
    if not given and not removed:
        raise Refused(
            "no label is named; write KEY=VALUE to set one, or KEY- to remove one", code="invalid", field="labels"
        )
    if both := next((key for key in removed if key in given), ""):
        raise Refused(f"label {both} is both set and removed; leave one out", code="invalid", field="labels")
    with transaction.atomic():
        rows = RunLabel.objects.filter(run_id=run.id)
        before = dict(rows.order_by("key").values_list("key", "value"))
        after = clean_labels({key: value for key, value in before.items() if key not in removed} | given)
        if after == before:
            return after
        rows.filter(key__in=[key for key in before if after.get(key) != before[key]]).delete()
        changed = {key: value for key, value in after.items() if before.get(key) != value}
        for key, value in changed.items():
            RunLabel.objects.create(run_id=run.id, workspace_id=run.workspace_id, key=key, value=value)
        audit_record(actor=actor, act=Act.RUN_LABELLED, subject=run.id, before=before, after=after)
    return after
