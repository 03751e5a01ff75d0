"""What a run of several versions, parents and children needs: formats, families, snapshots, inputs that wake or do not.

The database itself knows every default, so that a program of the version before, which does not name these columns, goes on beside this one.
"""

import django.db.models.deletion
import fabric.models.keys
from django.db import migrations, models
from django.db.models import CheckConstraint, F, Q

TO_WORKSPACE = {"db_constraint": False, "db_index": False, "related_name": "+", "to": "fabric.workspace"}


class Migration(migrations.Migration):
    dependencies = [("fabric", "0004_api_tokens")]

    operations = [
        migrations.CreateModel(
            name="Family",
            fields=[
                ("root_run_id", fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ("workspace", models.ForeignKey(on_delete=django.db.models.deletion.DO_NOTHING, **TO_WORKSPACE)),
                ("alive", models.IntegerField()),
                ("spawned", models.IntegerField()),
                ("cap_alive", models.IntegerField()),
                ("cap_spawned", models.IntegerField()),
            ],
            options={
                "constraints": [
                    CheckConstraint(condition=Q(alive__gte=0, alive__lte=F("cap_alive")), name="family_alive"),
                    CheckConstraint(condition=Q(spawned__gte=0, spawned__lte=F("cap_spawned")), name="family_spawned"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Snapshot",
            fields=[
                (
                    "run",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="fabric.run",
                    ),
                ),
                ("workspace", models.ForeignKey(on_delete=django.db.models.deletion.DO_NOTHING, **TO_WORKSPACE)),
                ("seq", models.IntegerField()),
                ("digest", models.TextField()),
                ("head", models.BinaryField()),
                ("state", models.BinaryField()),
                ("refs", models.TextField(db_default="[]", default="[]")),
            ],
        ),
        migrations.AddField("inbox", "wakes", models.SmallIntegerField(db_default=1, default=1)),
        migrations.AddField("inbox", "format", models.SmallIntegerField(db_default=1, default=1)),
        migrations.AddField("run", "format", models.SmallIntegerField(db_default=1, default=1)),
        migrations.AddField("run", "parent_run_id", fabric.models.keys.KeyField(blank=True, null=True)),
        migrations.AddField("run", "parent_command", models.TextField(blank=True, db_default="", default="")),
        migrations.AddField("run", "root_run_id", fabric.models.keys.KeyField(blank=True, null=True)),
        migrations.AddField("run", "cap_usd_micros", models.BigIntegerField(blank=True, null=True)),
        migrations.AddField("run", "origin_run_id", fabric.models.keys.KeyField(blank=True, null=True)),
        migrations.AddField("run", "origin_seq", models.PositiveIntegerField(blank=True, null=True)),
        migrations.AddIndex(
            "run",
            models.Index(fields=["parent_run_id"], condition=Q(parent_run_id__isnull=False), name="run_children"),
        ),
    ]
