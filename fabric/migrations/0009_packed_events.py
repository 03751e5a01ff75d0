from django.db import migrations

import fabric.models.packed


class Migration(migrations.Migration):
    """Nothing changes in the tables: rows that were stored unpacked stay so, and are read as before."""

    dependencies = [
        ('fabric', '0008_incarnations'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.AlterField(
                    model_name='event',
                    name='header',
                    field=fabric.models.packed.PackedField(),
                ),
                migrations.AlterField(
                    model_name='event',
                    name='payload',
                    field=fabric.models.packed.PackedField(null=True),
                ),
            ],
        ),
    ]
