"""Bearer tokens of the API."""

import django.db.models.deletion
import fabric.models.keys
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fabric", "0003_run_list_indexes"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False),
                ),
                ("name", models.TextField()),
                ("token_hash", fabric.models.keys.KeyField(unique=True)),
                ("scopes", models.TextField()),
                ("created_at", models.BigIntegerField()),
                ("created_by", models.TextField(blank=True, default="")),
                ("expires_at", models.BigIntegerField(blank=True, null=True)),
                ("revoked_at", models.BigIntegerField(blank=True, null=True)),
                ("last_used_at", models.BigIntegerField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
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
            options={
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("revoked_at__isnull", True)),
                        fields=("workspace", "name"),
                        name="api_token_name_once",
                    )
                ],
            },
        ),
    ]
