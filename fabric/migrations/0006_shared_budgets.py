"""What runs share across processes: budgets, grants, reservations, retry tokens, guard rows. What only PostgreSQL knows is in the last step."""

import django.db.models.deletion
import django.db.models.expressions
import fabric.models.keys
from django.db import migrations, models


FEW_AND_BUSY = ("fabric_budget", "fabric_budget_window", "fabric_bucket", "fabric_guard", "fabric_guard_count")


def tune(apps, schema_editor):
    """Few rows, updated often: most of each page stays free for their next version, and dead ones are cleared away by number, not by share.

    A reservation is updated once: a fifth of the page is enough.
    """
    if schema_editor.connection.vendor == "postgresql":
        for table in FEW_AND_BUSY:
            schema_editor.execute(
                f"ALTER TABLE {table} SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)"
            )
        for table in ("fabric_grant", "fabric_reservation"):
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 80)")


class Migration(migrations.Migration):

    dependencies = [
        ('fabric', '0005_durable'),
    ]

    operations = [
        migrations.CreateModel(
            name='BudgetWindow',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'window_at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', fabric.models.keys.KeyField()),
                ('window_at', models.BigIntegerField()),
                ('spent', models.BigIntegerField()),
            ],
            options={
                'db_table': 'fabric_budget_window',
            },
        ),
        migrations.CreateModel(
            name='Guard',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', fabric.models.keys.KeyField()),
                ('kind', fabric.models.keys.KeyField()),
                ('state', models.TextField()),
                ('generation', models.BigIntegerField()),
                ('changed_at', models.BigIntegerField()),
                ('permit_holder', models.TextField(blank=True, default='')),
                ('permit_until', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'fabric_guard',
            },
        ),
        migrations.CreateModel(
            name='GuardCount',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'kind', 'signal', 'ring', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', fabric.models.keys.KeyField()),
                ('kind', fabric.models.keys.KeyField()),
                ('signal', fabric.models.keys.KeyField()),
                ('ring', models.SmallIntegerField()),
                ('slot_at', models.BigIntegerField()),
                ('generation', models.BigIntegerField()),
                ('n', models.BigIntegerField()),
            ],
            options={
                'db_table': 'fabric_guard_count',
            },
        ),
        migrations.CreateModel(
            name='RetryBucket',
            fields=[
                ('scope', fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ('level', models.BigIntegerField()),
                ('credited_at', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'fabric_bucket',
            },
        ),
        migrations.CreateModel(
            name='SharedGrant',
            fields=[
                ('id', fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ('incarnation', fabric.models.keys.KeyField()),
                ('scope', fabric.models.keys.KeyField()),
                ('state', models.TextField(default='open')),
                ('amount', models.BigIntegerField()),
                ('used', models.BigIntegerField(default=0)),
                ('opened_at', models.BigIntegerField()),
                ('wanted_at', models.BigIntegerField(blank=True, null=True)),
                ('closed_at', models.BigIntegerField(blank=True, null=True)),
            ],
            options={
                'db_table': 'fabric_grant',
                'indexes': [models.Index(condition=models.Q(('closed_at__isnull', True)), fields=['incarnation'], name='grant_held'), models.Index(condition=models.Q(('closed_at__isnull', True)), fields=['scope'], name='grant_of_scope')],
            },
        ),
        migrations.CreateModel(
            name='SharedBudget',
            fields=[
                ('scope', fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ('hourly', models.BooleanField(default=False)),
                ('cap', models.BigIntegerField()),
                ('cap_wanted', models.BigIntegerField()),
                ('spent', models.BigIntegerField(default=0)),
                ('granted', models.BigIntegerField(default=0)),
                ('overrun', models.BigIntegerField(default=0)),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_budget',
                'constraints': [models.CheckConstraint(condition=models.Q(('cap_wanted__gte', 0), ('granted__gte', 0), ('spent__gte', 0)), name='budget_is_not_negative'), models.CheckConstraint(condition=models.Q(('cap__gte', django.db.models.expressions.CombinedExpression(models.F('spent'), '+', models.F('granted')))), name='budget_is_kept')],
            },
        ),
        migrations.CreateModel(
            name='GrantReservation',
            fields=[
                ('pk', models.CompositePrimaryKey('run_id', 'command_id', 'attempt', 'grant_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('command_id', fabric.models.keys.KeyField()),
                ('attempt', models.IntegerField()),
                ('amount', models.BigIntegerField()),
                ('settled', models.BigIntegerField(blank=True, null=True)),
                ('reason', models.TextField(blank=True, default='')),
                ('reserved_at', models.BigIntegerField()),
                ('settled_at', models.BigIntegerField(blank=True, null=True)),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.run')),
                ('grant', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.sharedgrant')),
            ],
            options={
                'db_table': 'fabric_reservation',
                'indexes': [models.Index(fields=['grant'], name='reservation_of_grant')],
            },
        ),
        migrations.RunPython(tune, migrations.RunPython.noop),
    ]
