"""Open questions to people: a projection of the escalation events, written in the same batch as they are."""

from __future__ import annotations

from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint, Value
from django.db.models.functions import Concat, StrIndex
from django.db.models.lookups import Exact

from fabric.models.keys import KeyField
from fabric.models.runs import Run
from fabric.models.workspaces import Workspace

OPEN = Q(decided_at__isnull=True)
DECIDED = Q(decided_at__isnull=False)
TICKET = "ticket"
"""The kind that parks nothing: it is closed as soon as it is there, so that nothing counts it as open (``TicketClosure`` says when it was dealt with)."""
_LETS_NOTHING_PASS = Q(by_system=True) | Q(verb__in=("", "reject", "decline", "withdrawn"))
_ALONE = Q(alone=True, approvals=1)


def _not_in(column: str) -> Q:
    """Whoever decided is not named in the column. The run's owner sees to it; this is for whoever writes past it."""
    end = Value("\n", output_field=models.TextField())
    named = StrIndex(F(column), Concat(end, F("decided_by"), end))
    return Q(Exact(named, Value(0)))


class Escalation(models.Model):
    """One question (``batch_parts.EscalationChange``). Instants are microseconds since the epoch, UTC."""

    id = KeyField(primary_key=True)
    workspace = models.ForeignKey(Workspace, models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False)
    run = models.ForeignKey(Run, models.DO_NOTHING, related_name="escalations", db_constraint=False, db_index=False)
    step_id = models.TextField(blank=True, default="")
    item = models.TextField()
    reason = models.TextField(blank=True, default="")
    failure_type = models.TextField(blank=True, default="")
    stage = models.TextField(blank=True, default="")
    required_role = models.TextField(blank=True, default="")
    verbs = models.TextField()
    """What may be answered, separated by commas."""
    digest = models.TextField()
    """Over what approval releases; a decision names it."""
    opened_at = models.BigIntegerField()
    due_at = models.BigIntegerField()
    content = models.BinaryField()
    """JSON of what the person is shown."""
    decided_at = models.BigIntegerField(null=True, blank=True)
    verb = models.TextField(blank=True, default="")
    decided_by = models.TextField(blank=True, default="")
    by_system = models.BooleanField(default=False)
    alone = models.BooleanField(db_default=False)
    """Whether who decided was the one person who may sign in there."""
    approvals = models.PositiveSmallIntegerField(db_default=1)
    """How many people have to agree."""
    asked = models.TextField(blank=True, db_default="")
    """The roles and users who may answer from the beginning: this column and the next three as ``batch_parts.names_text`` has it."""
    onward_to = models.TextField(blank=True, db_default="")
    """Who may answer as well once it was passed on."""
    barred = models.TextField(blank=True, db_default="")
    """Who may reject it and not let it pass."""
    agreed = models.TextField(blank=True, db_default="")
    """Who has agreed to exactly what is asked about now, of two who have to; whoever decided is not among them."""
    proposed_by = models.TextField(blank=True, db_default="")
    """Who wrote what is asked about, where somebody else has to let it pass."""
    remind_at = models.BigIntegerField(db_default=0)
    onward_at = models.BigIntegerField(db_default=0)
    reminded = models.BooleanField(db_default=False)
    onward = models.BooleanField(db_default=False)
    """Whether it was passed on."""
    score = models.FloatField(null=True, blank=True)
    """What the critic gave, where confidence is why it is asked..."""
    tau = models.FloatField(null=True, blank=True)
    """...and the least that passes."""

    class Meta:
        """How it is searched, and what may be there once."""

        indexes = (
            Index(fields=["workspace", "due_at"], condition=OPEN, name="escalation_open_due"),
            Index(fields=["run", "opened_at"], name="escalation_of_run"),
            Index(fields=["workspace", "-opened_at"], condition=Q(item=TICKET), name="escalation_tickets"),
            Index(fields=["workspace", "-decided_at", "id"], condition=DECIDED, name="escalation_decided"),
        )
        constraints = (
            UniqueConstraint(fields=["run", "step_id"], condition=OPEN, name="escalation_open_once"),
            CheckConstraint(condition=_LETS_NOTHING_PASS | _ALONE | _not_in("barred"), name="escalation_not_barred"),
            CheckConstraint(condition=_LETS_NOTHING_PASS | _not_in("agreed"), name="escalation_two_people"),
            CheckConstraint(
                condition=_LETS_NOTHING_PASS | Q(proposed_by="") | ~Q(proposed_by=F("decided_by")),
                name="escalation_not_own_edit",
            ),
        )

    def __str__(self) -> str:
        return self.id
