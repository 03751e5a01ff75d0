"""Owners set what holds for every fabric of their workspace, in versions."""

import django.db.models.deletion
from django.db import migrations, models

import fabric.models.keys


class Migration(migrations.Migration):
    dependencies = [("fabric", "0033_narrow_tokens")]

    operations = [
        migrations.CreateModel(
            name="WorkspacePolicyVersion",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(
                        default=fabric.models.keys.new_id, primary_key=True, serialize=False
                    ),
                ),
                ("number", models.PositiveIntegerField()),
                ("policy", models.TextField()),
                ("set_at", models.BigIntegerField()),
                ("set_by", models.TextField()),
                (
                    "workspace",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="fabric.workspace",
                    ),
                ),
            ],
            options={"db_table": "fabric_workspace_policy"},
        ),
        migrations.AddConstraint(
            model_name="workspacepolicyversion",
            constraint=models.UniqueConstraint(fields=("workspace", "number"), name="workspace_policy_once"),
        ),
    ]
