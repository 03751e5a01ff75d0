"""Who is alone and who caused what: a question's row says that its answer was of the one person there, runs and change requests say who is behind them."""

from django.db import migrations
from django.db.models import BooleanField, CheckConstraint, F, PositiveSmallIntegerField, Q, TextField, Value
from django.db.models.functions import Concat, StrIndex
from django.db.models.lookups import Exact

LETS_NOTHING_PASS = Q(by_system=True) | Q(verb__in=("", "reject", "decline", "withdrawn"))
END = Value("\n", output_field=TextField())
NOT_BARRED = Q(Exact(StrIndex(F("barred"), Concat(END, F("decided_by"), END)), Value(0)))
CONSTRAINT = CheckConstraint(
    condition=LETS_NOTHING_PASS | Q(alone=True, approvals=1) | NOT_BARRED, name="escalation_not_barred"
)


class Migration(migrations.Migration):
    dependencies = [("fabric", "0030_declined")]

    operations = [
        migrations.AddField("escalation", "alone", BooleanField(db_default=False)),
        migrations.RemoveConstraint("escalation", CONSTRAINT.name),
        migrations.AddConstraint("escalation", CONSTRAINT),
        migrations.AddField("run", "caused_by", TextField(blank=True, db_default="")),
        migrations.AddField("changerequest", "caused_by", TextField(blank=True, db_default="")),
        migrations.AddField("loginlink", "created_by", TextField(blank=True, db_default="")),
        migrations.AddField("invitation", "names_tried", PositiveSmallIntegerField(db_default=0)),
    ]
