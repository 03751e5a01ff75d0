"""A declined call lets nothing pass, as a rejection does: whoever may not approve a question may decline its call."""

from django.db import migrations
from django.db.models import CheckConstraint, F, Q, TextField, Value
from django.db.models.functions import Concat, StrIndex
from django.db.models.lookups import Exact

LETS_NOTHING_PASS = Q(by_system=True) | Q(verb__in=("", "reject", "decline", "withdrawn"))


def _not_in(column: str) -> Q:
    end = Value("\n", output_field=TextField())
    return Q(Exact(StrIndex(F(column), Concat(end, F("decided_by"), end)), Value(0)))


CONSTRAINTS = (
    CheckConstraint(condition=LETS_NOTHING_PASS | _not_in("barred"), name="escalation_not_barred"),
    CheckConstraint(condition=LETS_NOTHING_PASS | _not_in("agreed"), name="escalation_two_people"),
    CheckConstraint(
        condition=LETS_NOTHING_PASS | Q(proposed_by="") | ~Q(proposed_by=F("decided_by")),
        name="escalation_not_own_edit",
    ),
)


class Migration(migrations.Migration):
    dependencies = [("fabric", "0029_stopped")]

    operations = [
        *(migrations.RemoveConstraint("escalation", one.name) for one in CONSTRAINTS),
        *(migrations.AddConstraint("escalation", one) for one in CONSTRAINTS),
    ]
