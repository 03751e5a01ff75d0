"""The parameters of the audit list, and their words."""

from __future__ import annotations

from collections.abc import Mapping

from console.views.list_grammar import Field, Grammar
from fabric.core.acts import ACTS, About, Outcome
from fabric.core.audit import Act
from fabric.selectors.audit_list import AuditFilter

OUTCOMES: Mapping[Outcome, tuple[str, str]] = {
    Outcome.DONE: ("done", "neutral"),
    Outcome.REFUSED: ("refused", "warn"),
    Outcome.FAILED: ("failed", "danger"),
}
"""Word and tone of each outcome; total by test."""
CAME_BY: Mapping[str, str] = {
    "session": "signed in",
    "token": "by a token",
    "cli": "at the command line",
    "system": "by itself",
    "nobody": "not signed in",
    "": "not noted",
}
"""What the actor came in by."""
ACT_WORDS = tuple(sorted(((act.value, ACTS[act].sentence) for act in Act), key=lambda one: one[1]))
AUDIT = Grammar(
    route="audit",
    makes=AuditFilter,
    usual="all",
    fields=(
        Field("actor", "by", hint="a name"),
        Field("act", "act", ACT_WORDS),
        Field("outcome", "outcome", tuple((one.value, OUTCOMES[one][0]) for one in Outcome)),
        Field("subject", "object", hint="an id or a name", place="more"),
        Field("about", "kind of object", tuple((one.value, one.value) for one in About), place="more"),
        Field("address", "address", hint="192.0.2.7", place="more"),
    ),
)
