"""Members are told of questions by e-mail, and webhooks of what became of them."""

import django.db.models.deletion
from django.db import migrations, models

import fabric.models.keys

TOLD = ["alert_raised", "escalation_approved", "escalation_decided", "escalation_opened", "escalation_reminded"]


class Migration(migrations.Migration):
    dependencies = [("fabric", "0020_decided_index")]

    operations = [
        migrations.CreateModel(
            name="NotificationRead",
            fields=[
                ("id", fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ("run_id", fabric.models.keys.KeyField()),
                ("seq", models.IntegerField()),
                ("at", models.BigIntegerField(db_index=True)),
            ],
            options={
                "db_table": "fabric_notification_read",
                "constraints": [models.UniqueConstraint(fields=("run_id", "seq"), name="notification_read_once")],
            },
        ),
        migrations.CreateModel(
            name="NotificationPreference",
            fields=[
                ("member", fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ("questions", models.BooleanField(db_default=True, default=True)),
                ("changed_at", models.BigIntegerField()),
                (
                    "workspace",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="fabric.workspace",
                    ),
                ),
            ],
            options={"db_table": "fabric_notification_preference"},
        ),
        migrations.AddField(
            model_name="notification",
            name="member",
            field=fabric.models.keys.KeyField(blank=True, db_default="", default=""),
        ),
        # It has to hold every kind that is told, or a query for all of them would not be answered from it.
        migrations.RemoveIndex(model_name="event", name="event_notified"),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(condition=models.Q(("kind__in", TOLD)), fields=["at"], name="event_notified"),
        ),
    ]
