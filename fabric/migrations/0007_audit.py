"""The audit stream, its checkpoints, who keeps them and how long contents are kept; and the triggers that refuse changes."""

import django.db.models.deletion
import fabric.models.keys
from django.db import migrations, models

from fabric.migrations._append_only import install, remove


class Migration(migrations.Migration):
    dependencies = [
        ("fabric", "0006_shared_budgets"),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditLine",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False),
                ),
                ("at", models.BigIntegerField()),
                ("actor", models.TextField()),
                ("via", models.TextField(blank=True, default="")),
                ("kind", models.TextField()),
                ("subject", models.TextField(blank=True, default="")),
                ("body", models.BinaryField()),
                ("seq", models.BigIntegerField(blank=True, null=True)),
                ("hash", models.BinaryField(blank=True, null=True)),
            ],
            options={
                "db_table": "fabric_audit",
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False),
                ),
                ("number", models.PositiveIntegerField()),
                ("at", models.BigIntegerField()),
                ("body", models.BinaryField()),
                ("signature", models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name="Duty",
            fields=[
                ("name", fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ("holder", models.TextField(blank=True, default="")),
                ("held_until", models.BigIntegerField(default=0)),
                ("due_at", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.AddField(
            model_name="workspace",
            name="erased_until",
            field=models.BigIntegerField(db_default=0),
        ),
        migrations.AddField(
            model_name="workspace",
            name="retention_days",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("state", "completed")), fields=["workspace", "ended_at"], name="run_completed"
            ),
        ),
        migrations.AddField(
            model_name="auditline",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="fabric.workspace",
            ),
        ),
        migrations.AddField(
            model_name="checkpoint",
            name="workspace",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="fabric.workspace",
            ),
        ),
        migrations.AddIndex(
            model_name="auditline",
            index=models.Index(condition=models.Q(("seq__isnull", True)), fields=["at", "id"], name="audit_unsealed"),
        ),
        migrations.AddIndex(
            model_name="auditline",
            index=models.Index(fields=["workspace", "subject"], name="audit_subject"),
        ),
        migrations.AddConstraint(
            model_name="auditline",
            constraint=models.UniqueConstraint(fields=("workspace", "seq"), name="audit_seq_once"),
        ),
        migrations.AddConstraint(
            model_name="checkpoint",
            constraint=models.UniqueConstraint(fields=("workspace", "number"), name="checkpoint_number_once"),
        ),
        migrations.RunPython(install, remove),
    ]
