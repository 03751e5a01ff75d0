"""One-time login links."""

import django.db.models.deletion
import fabric.models.keys
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("fabric", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="LoginLink",
            fields=[
                (
                    "id",
                    fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False),
                ),
                ("token_hash", fabric.models.keys.KeyField(unique=True)),
                ("expires_at", models.BigIntegerField()),
                ("used_at", models.BigIntegerField(blank=True, null=True)),
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
        ),
    ]
