"""Keys of model endpoints that workspaces store, sealed, and what test calls of models came to."""

import django.db.models.deletion
import fabric.models.keys
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fabric', "0022_revision_source"),
    ]

    operations = [
        migrations.CreateModel(
            name='ModelTest',
            fields=[
                ('id', fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False)),
                ('model', fabric.models.keys.KeyField()),
                ('started_at', models.BigIntegerField()),
                ('started_by', models.TextField()),
                ('until', models.BigIntegerField()),
                ('ended_at', models.BigIntegerField(blank=True, null=True)),
                ('reserved_usd_micros', models.BigIntegerField(blank=True, null=True)),
                ('cost_usd_micros', models.BigIntegerField(blank=True, null=True)),
                ('outcome', models.BinaryField(default=b'')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_model_test',
                'constraints': [models.UniqueConstraint(fields=('workspace', 'model'), name='model_test_once')],
            },
        ),
        migrations.CreateModel(
            name='ProviderKey',
            fields=[
                ('id', fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False)),
                ('provider', fabric.models.keys.KeyField()),
                ('host', models.TextField()),
                ('sealed', models.BinaryField()),
                ('last_four', models.TextField()),
                ('added_at', models.BigIntegerField()),
                ('added_by', models.TextField()),
                ('used_at', models.BigIntegerField(blank=True, null=True)),
                ('tested_at', models.BigIntegerField(blank=True, null=True)),
                ('tested_ok', models.BooleanField(db_default=False, default=False)),
                ('tested_said', models.TextField(blank=True, db_default='', default='')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_provider_key',
                'constraints': [models.UniqueConstraint(fields=('workspace', 'provider', 'host'), name='provider_key_once')],
            },
        ),
    ]
