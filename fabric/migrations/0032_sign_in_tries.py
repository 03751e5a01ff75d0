"""Tries to sign in are counted in the database, for all web processes together."""

from django.db import migrations, models

import fabric.models.keys


class Migration(migrations.Migration):
    dependencies = [("fabric", "0031_nobody_is_two")]

    operations = [
        migrations.CreateModel(
            name="SignInTries",
            fields=[
                ("who", fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ("failed", models.PositiveIntegerField(db_default=0)),
                ("until", models.BigIntegerField(db_default=0)),
                ("at", models.BigIntegerField(db_index=True)),
            ],
        )
    ]
