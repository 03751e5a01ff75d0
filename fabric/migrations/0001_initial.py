"""The first tables. What only PostgreSQL knows is in the last step."""

import django.db.models.deletion
import fabric.models.keys
from django.db import migrations, models


def tune(apps, schema_editor):
    """Half of each page of runs stays free, so that a flush rewrites its row on the same page and touches no index."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE fabric_run SET (fillfactor = 50)")


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Fabric",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False),
                ),
                ("name", models.TextField()),
                ("title", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Incarnation",
            fields=[
                ("name", fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ("lease_until", models.BigIntegerField()),
                ("started_at", models.BigIntegerField()),
                ("retired_at", models.BigIntegerField(blank=True, null=True)),
                ("host", models.TextField(blank=True, default="")),
                ("pid", models.PositiveIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Workspace",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False),
                ),
                ("name", models.TextField(unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name="Revision",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False),
                ),
                ("number", models.PositiveIntegerField()),
                ("digest", models.TextField()),
                ("spec", models.TextField()),
                ("published_at", models.DateTimeField(auto_now_add=True)),
                ("published_by", models.TextField(blank=True, default="")),
                (
                    "fabric",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="revisions",
                        to="fabric.fabric",
                    ),
                ),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="fabric.workspace",
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="fabric",
            name="published",
            field=models.ForeignKey(
                blank=True,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="fabric.revision",
            ),
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False),
                ),
                ("session_key", models.TextField(blank=True, default="")),
                ("start_key", models.TextField(blank=True, default="")),
                ("title", models.TextField(blank=True, default="")),
                ("trace_id", models.TextField()),
                ("seed", models.BigIntegerField()),
                ("tier", models.TextField()),
                ("queue", models.TextField(default="default")),
                (
                    "priority",
                    models.PositiveSmallIntegerField(
                        choices=[(0, "critical"), (1, "high"), (2, "normal"), (3, "low")], default=2
                    ),
                ),
                ("created_at", models.BigIntegerField()),
                ("created_by", models.TextField(blank=True, default="")),
                ("state", models.TextField(default="queued")),
                ("stage", models.TextField(blank=True, default="")),
                ("epoch", models.PositiveIntegerField(default=0)),
                ("cost_usd_micros", models.BigIntegerField(default=0)),
                ("tokens", models.BigIntegerField(default=0)),
                ("reason", models.TextField(blank=True, default="")),
                ("recovered", models.BooleanField(default=False)),
                ("truncated", models.BooleanField(default=False)),
                ("started_at", models.BigIntegerField(blank=True, null=True)),
                ("ended_at", models.BigIntegerField(blank=True, null=True)),
                ("deadline_at", models.BigIntegerField()),
                ("last_seq", models.PositiveIntegerField(default=0)),
                ("head_hash", models.BinaryField()),
                ("fence", models.BigIntegerField(default=0)),
                ("incarnation", fabric.models.keys.KeyField(blank=True, null=True)),
                ("wake_at", models.BigIntegerField(blank=True, null=True)),
                ("claims", models.PositiveIntegerField(default=0)),
                ("claim_ticket", models.BigIntegerField(default=0)),
                (
                    "fabric",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="runs",
                        to="fabric.fabric",
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="fabric.revision",
                    ),
                ),
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
        ),
        migrations.CreateModel(
            name="Inbox",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "input_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("created_at", models.BigIntegerField()),
                ("visible_at", models.BigIntegerField()),
                ("consumed_seq", models.IntegerField(blank=True, null=True)),
                ("input_id", fabric.models.keys.KeyField()),
                ("body", models.BinaryField()),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="inbox",
                        to="fabric.run",
                    ),
                ),
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
        ),
        migrations.AddField(
            model_name="fabric",
            name="workspace",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="fabrics",
                to="fabric.workspace",
            ),
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "seq", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.BigIntegerField()),
                ("seq", models.IntegerField()),
                ("version", models.SmallIntegerField()),
                ("kind", models.TextField()),
                ("header", models.BinaryField()),
                ("payload", models.BinaryField(null=True)),
                ("payload_hash", models.BinaryField()),
                ("hash", models.BinaryField()),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="events",
                        to="fabric.run",
                    ),
                ),
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
        ),
        migrations.CreateModel(
            name="Escalation",
            fields=[
                ("id", fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ("step_id", models.TextField(blank=True, default="")),
                ("item", models.TextField()),
                ("reason", models.TextField(blank=True, default="")),
                ("failure_type", models.TextField(blank=True, default="")),
                ("stage", models.TextField(blank=True, default="")),
                ("required_role", models.TextField(blank=True, default="")),
                ("verbs", models.TextField()),
                ("digest", models.TextField()),
                ("opened_at", models.BigIntegerField()),
                ("due_at", models.BigIntegerField()),
                ("content", models.BinaryField()),
                ("decided_at", models.BigIntegerField(blank=True, null=True)),
                ("verb", models.TextField(blank=True, default="")),
                ("decided_by", models.TextField(blank=True, default="")),
                ("by_system", models.BooleanField(default=False)),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="escalations",
                        to="fabric.run",
                    ),
                ),
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
        ),
        migrations.CreateModel(
            name="Attachment",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run_id", "position", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("position", models.PositiveSmallIntegerField()),
                ("name", models.TextField()),
                ("text", models.TextField()),
                ("bytes", models.PositiveIntegerField()),
                (
                    "run",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="attachments",
                        to="fabric.run",
                    ),
                ),
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
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                models.F("workspace"),
                models.OrderBy(models.F("created_at"), descending=True),
                models.F("id"),
                name="run_list",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("state__in", ["aborted", "cancelled", "completed", "failed"]), _negated=True),
                fields=["workspace", "state", "created_at"],
                name="run_live",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("incarnation__isnull", True), ("wake_at__isnull", False)),
                fields=["queue", "priority", "wake_at"],
                name="run_due",
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("incarnation__isnull", False)), fields=["incarnation"], name="run_owned"
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                condition=models.Q(("start_key", ""), _negated=True),
                fields=("workspace", "start_key"),
                name="run_start_key_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(fields=("fabric", "number"), name="revision_number_once"),
        ),
        migrations.AddConstraint(
            model_name="revision",
            constraint=models.UniqueConstraint(fields=("fabric", "digest"), name="revision_digest_once"),
        ),
        migrations.AddIndex(
            model_name="inbox",
            index=models.Index(
                condition=models.Q(("consumed_seq__isnull", True)), fields=["visible_at"], name="inbox_waiting"
            ),
        ),
        migrations.AddConstraint(
            model_name="fabric",
            constraint=models.UniqueConstraint(fields=("workspace", "name"), name="fabric_name_once"),
        ),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                condition=models.Q(("decided_at__isnull", True)),
                fields=["workspace", "due_at"],
                name="escalation_open_due",
            ),
        ),
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(fields=["run", "opened_at"], name="escalation_of_run"),
        ),
        migrations.AddConstraint(
            model_name="escalation",
            constraint=models.UniqueConstraint(
                condition=models.Q(("decided_at__isnull", True)), fields=("run", "step_id"), name="escalation_open_once"
            ),
        ),
        migrations.RunPython(tune, migrations.RunPython.noop),
    ]
