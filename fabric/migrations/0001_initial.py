"""All tables of format 1. What only PostgreSQL knows and the triggers are the last steps."""

import django.db.models.deletion
import django.db.models.expressions
import django.db.models.functions.text
import django.db.models.lookups
import fabric.models.fields.identities
import fabric.models.fields.packed
from django.conf import settings
from django.db import migrations, models

from fabric.migrations._admission import install_admission
from fabric.migrations._append_only import install

FEW_AND_BUSY = ("fabric_budget", "fabric_budget_window", "fabric_bucket", "fabric_guard", "fabric_guard_count")


def tune(apps, schema_editor):
    """Leaves room in PostgreSQL's pages for the next version of a row, so that an update touches no index.

    Of few rows, updated often, most of each page stays free, and dead ones are cleared away by number, not by share. A flush rewrites a run's row:
    half of the page. A reservation is updated once: a fifth.
    """
    if schema_editor.connection.vendor != "postgresql":
        return
    schema_editor.execute("ALTER TABLE fabric_run SET (fillfactor = 50)")
    for table in FEW_AND_BUSY:
        schema_editor.execute(
            f"ALTER TABLE {table} SET (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)"
        )
    for table in ("fabric_grant", "fabric_reservation"):
        schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 80)")


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='BudgetWindow',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'window_at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', fabric.models.fields.identities.KeyField()),
                ('window_at', models.BigIntegerField()),
                ('spent', models.BigIntegerField()),
            ],
            options={
                'db_table': 'fabric_budget_window',
            },
        ),
        migrations.CreateModel(
            name='Duty',
            fields=[
                ('name', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('holder', models.TextField(blank=True, default='')),
                ('held_until', models.BigIntegerField(default=0)),
                ('due_at', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name='Fabric',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('title', models.TextField(blank=True, default='')),
                ('created_at', models.DateTimeField(auto_now_add=True)),
            ],
        ),
        migrations.CreateModel(
            name='Guard',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'kind', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', fabric.models.fields.identities.KeyField()),
                ('kind', fabric.models.fields.identities.KeyField()),
                ('state', models.TextField()),
                ('generation', models.BigIntegerField()),
                ('changed_at', models.BigIntegerField()),
                ('permits', models.TextField(db_default='{}', default='{}')),
            ],
            options={
                'db_table': 'fabric_guard',
            },
        ),
        migrations.CreateModel(
            name='GuardCount',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'kind', 'signal', 'ring', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', fabric.models.fields.identities.KeyField()),
                ('kind', fabric.models.fields.identities.KeyField()),
                ('signal', fabric.models.fields.identities.KeyField()),
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
            name='Incarnation',
            fields=[
                ('name', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('lease_until', models.BigIntegerField()),
                ('started_at', models.BigIntegerField()),
                ('retired_at', models.BigIntegerField(blank=True, null=True)),
                ('host', models.TextField(blank=True, default='')),
                ('pid', models.PositiveIntegerField(default=0)),
                ('token', models.BigIntegerField(db_default=0, default=0)),
                ('lock_key', models.BigIntegerField(blank=True, null=True)),
                ('refused_writes', models.BigIntegerField(db_default=0, default=0)),
            ],
        ),
        migrations.CreateModel(
            name='NotificationTarget',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('since_at', models.BigIntegerField()),
                ('read_to', models.BigIntegerField()),
            ],
            options={
                'db_table': 'fabric_notification_target',
            },
        ),
        migrations.CreateModel(
            name='RetryBucket',
            fields=[
                ('scope', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('level', models.BigIntegerField()),
                ('credited_at', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'fabric_bucket',
            },
        ),
        migrations.CreateModel(
            name='SignInTries',
            fields=[
                ('who', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('failed', models.PositiveIntegerField(db_default=0)),
                ('until', models.BigIntegerField(db_default=0)),
                ('at', models.BigIntegerField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='UsedOnce',
            fields=[
                ('key', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('until', models.BigIntegerField(db_index=True)),
            ],
        ),
        migrations.CreateModel(
            name='GuardChange',
            fields=[
                ('pk', models.CompositePrimaryKey('scope', 'kind', 'generation', blank=True, editable=False, primary_key=True, serialize=False)),
                ('scope', fabric.models.fields.identities.KeyField()),
                ('kind', fabric.models.fields.identities.KeyField()),
                ('generation', models.BigIntegerField()),
                ('state', models.TextField()),
                ('at', models.BigIntegerField()),
            ],
            options={
                'db_table': 'fabric_guard_change',
                'indexes': [models.Index(fields=['at'], name='guard_change_at')],
            },
        ),
        migrations.CreateModel(
            name='MemoryEntry',
            fields=[
                ('call_key', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('fabric_id', fabric.models.fields.identities.KeyField()),
                ('memory', fabric.models.fields.identities.KeyField()),
                ('key', fabric.models.fields.identities.KeyField()),
                ('version', models.BigIntegerField()),
                ('replaced', models.BigIntegerField(default=0)),
                ('value', models.TextField(blank=True, default='')),
                ('deleted', models.BooleanField(default=False)),
                ('run_id', fabric.models.fields.identities.KeyField(blank=True, default='')),
                ('step_id', models.TextField(blank=True, default='')),
                ('agent', models.TextField(blank=True, default='')),
                ('actor', models.TextField(blank=True, default='')),
                ('reason', models.TextField(blank=True, default='')),
                ('at', models.BigIntegerField()),
                ('undone_at', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'fabric_memory_entry',
                'indexes': [models.Index(fields=['fabric_id', 'memory', 'key', 'version'], name='memory_of_key'), models.Index(fields=['run_id'], name='memory_of_run')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('version__gt', 0)), fields=('fabric_id', 'memory', 'key', 'version'), name='memory_version_once')],
            },
        ),
        migrations.CreateModel(
            name='NotificationRead',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('run_id', fabric.models.fields.identities.KeyField()),
                ('seq', models.IntegerField()),
                ('at', models.BigIntegerField(db_index=True)),
            ],
            options={
                'db_table': 'fabric_notification_read',
                'constraints': [models.UniqueConstraint(fields=('run_id', 'seq'), name='notification_read_once')],
            },
        ),
        migrations.CreateModel(
            name='RecoveryCode',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('code_hash', fabric.models.fields.identities.KeyField(unique=True)),
                ('used_at', models.BigIntegerField(blank=True, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Revision',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('digest', models.TextField()),
                ('spec', models.TextField()),
                ('source', models.TextField(blank=True, db_default='', default='')),
                ('published_at', models.DateTimeField(auto_now_add=True)),
                ('published_by', models.TextField(blank=True, default='')),
                ('message', models.TextField(blank=True, db_default='', default='')),
                ('fabric', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='revisions', to='fabric.fabric')),
            ],
        ),
        migrations.AddField(
            model_name='fabric',
            name='published',
            field=models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.revision'),
        ),
        migrations.CreateModel(
            name='SecondFactor',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('kind', models.TextField()),
                ('name', models.TextField()),
                ('credential', fabric.models.fields.identities.KeyField(blank=True, null=True, unique=True)),
                ('secret', models.BinaryField()),
                ('counter', models.BigIntegerField(db_default=0)),
                ('made_at', models.BigIntegerField()),
                ('used_at', models.BigIntegerField(blank=True, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='SharedGrant',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('incarnation', fabric.models.fields.identities.KeyField()),
                ('scope', fabric.models.fields.identities.KeyField()),
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
            name='Workspace',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('name', models.TextField(unique=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('retention_days', models.PositiveIntegerField(blank=True, null=True)),
                ('erased_until', models.BigIntegerField(db_default=0)),
                ('drills_of', models.OneToOneField(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='FollowUpClosure',
            fields=[
                ('review', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('run_id', fabric.models.fields.identities.KeyField()),
                ('closed_at', models.BigIntegerField()),
                ('closed_by', models.TextField()),
                ('note', models.TextField()),
                ('fork_run_id', models.TextField(blank=True, default='')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_follow_up_closure',
            },
        ),
        migrations.CreateModel(
            name='Run',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('session_key', models.TextField(blank=True, default='')),
                ('start_key', models.TextField(blank=True, default='')),
                ('title', models.TextField(blank=True, default='')),
                ('trace_id', models.TextField()),
                ('seed', models.BigIntegerField()),
                ('tier', models.TextField()),
                ('queue', models.TextField(default='default')),
                ('priority', models.PositiveSmallIntegerField(choices=[(0, 'critical'), (1, 'high'), (2, 'normal'), (3, 'low')], default=2)),
                ('created_at', models.BigIntegerField()),
                ('created_by', models.TextField(blank=True, default='')),
                ('caused_by', models.TextField(blank=True, db_default='')),
                ('state', models.TextField(default='queued')),
                ('stage', models.TextField(blank=True, default='')),
                ('epoch', models.PositiveIntegerField(default=0)),
                ('cost_usd_micros', models.BigIntegerField(default=0)),
                ('tokens', models.BigIntegerField(default=0)),
                ('reason', models.TextField(blank=True, default='')),
                ('recovered', models.BooleanField(default=False)),
                ('truncated', models.BooleanField(default=False)),
                ('cause', models.TextField(blank=True, db_default='', default='')),
                ('failure', models.TextField(blank=True, db_default='', default='')),
                ('fired', models.TextField(blank=True, db_default='', default='')),
                ('breakers', models.TextField(blank=True, db_default='', default='')),
                ('unconfirmed_usd_micros', models.BigIntegerField(db_default=0, default=0)),
                ('spent_on', models.TextField(blank=True, db_default='', default='')),
                ('took_us', models.GeneratedField(db_persist=True, expression=django.db.models.expressions.CombinedExpression(models.F('ended_at'), '-', models.F('created_at')), output_field=models.BigIntegerField(null=True))),
                ('final_cost_usd_micros', models.GeneratedField(db_persist=True, expression=models.Case(models.When(ended_at__isnull=False, then=models.F('cost_usd_micros'))), output_field=models.BigIntegerField(null=True))),
                ('final_tokens', models.GeneratedField(db_persist=True, expression=models.Case(models.When(ended_at__isnull=False, then=models.F('tokens'))), output_field=models.BigIntegerField(null=True))),
                ('started_at', models.BigIntegerField(blank=True, null=True)),
                ('ended_at', models.BigIntegerField(blank=True, null=True)),
                ('deadline_at', models.BigIntegerField()),
                ('last_seq', models.PositiveIntegerField(default=0)),
                ('head_hash', models.BinaryField()),
                ('fence', models.BigIntegerField(default=0)),
                ('incarnation', fabric.models.fields.identities.KeyField(blank=True, null=True)),
                ('wake_at', models.BigIntegerField(blank=True, null=True)),
                ('claims', models.PositiveIntegerField(default=0)),
                ('claim_ticket', models.BigIntegerField(default=0)),
                ('format', models.SmallIntegerField(db_default=1, default=1)),
                ('parent_run_id', fabric.models.fields.identities.KeyField(blank=True, null=True)),
                ('parent_command', models.TextField(blank=True, db_default='', default='')),
                ('root_run_id', fabric.models.fields.identities.KeyField(blank=True, null=True)),
                ('cap_usd_micros', models.BigIntegerField(blank=True, null=True)),
                ('origin_run_id', fabric.models.fields.identities.KeyField(blank=True, null=True)),
                ('origin_seq', models.PositiveIntegerField(blank=True, null=True)),
                ('trace_context', models.TextField(blank=True, db_default='')),
                ('fabric', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='runs', to='fabric.fabric')),
                ('revision', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.revision')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.AddField(
            model_name='revision',
            name='workspace',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.workspace'),
        ),
        migrations.CreateModel(
            name='ChatRoute',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('fabric', models.TextField(blank=True, default='')),
                ('member', fabric.models.fields.identities.KeyField(blank=True, default='')),
                ('channel', models.TextField()),
                ('host', models.TextField()),
                ('sealed', models.BinaryField()),
                ('added_at', models.BigIntegerField()),
                ('added_by', models.TextField()),
                ('removed_at', models.BigIntegerField(blank=True, null=True)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_chat_route',
                'indexes': [models.Index(condition=models.Q(('removed_at__isnull', True)), fields=['workspace', 'added_at'], name='chat_route_standing')],
            },
        ),
        migrations.CreateModel(
            name='FailureAcknowledgement',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('fabric_id', fabric.models.fields.identities.KeyField()),
                ('cause', models.TextField(blank=True)),
                ('until_at', models.BigIntegerField()),
                ('by', models.TextField()),
                ('note', models.TextField(blank=True, default='')),
                ('at', models.BigIntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_failure_acknowledgement',
                'constraints': [models.UniqueConstraint(fields=('workspace', 'fabric_id', 'cause'), name='failure_acknowledged_once')],
            },
        ),
        migrations.CreateModel(
            name='InboxSeen',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('seen_at', models.BigIntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_inbox_seen',
                'constraints': [models.UniqueConstraint(fields=('workspace', 'name'), name='inbox_seen_once')],
            },
        ),
        migrations.CreateModel(
            name='ReviewComment',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('run_id', fabric.models.fields.identities.KeyField()),
                ('review', fabric.models.fields.identities.KeyField()),
                ('number', models.PositiveIntegerField()),
                ('author', models.TextField()),
                ('text', models.TextField(blank=True)),
                ('mentions', models.TextField(blank=True, db_default='', default='')),
                ('at', models.BigIntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_review_comment',
                'indexes': [models.Index(fields=['review', 'at'], name='review_comment_of_review'), models.Index(fields=['workspace', '-at'], name='review_comment_newest')],
                'constraints': [models.UniqueConstraint(fields=('run_id', 'number'), name='review_comment_once')],
            },
        ),
        migrations.CreateModel(
            name='ReviewSnooze',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('review', fabric.models.fields.identities.KeyField()),
                ('name', models.TextField()),
                ('until_at', models.BigIntegerField()),
                ('digest', models.TextField()),
                ('agreed', models.TextField(blank=True, default='')),
                ('reminded', models.BooleanField(default=False)),
                ('onward', models.BooleanField(default=False)),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_review_snooze',
                'constraints': [models.UniqueConstraint(fields=('review', 'name'), name='review_snooze_once')],
            },
        ),
        migrations.CreateModel(
            name='ReviewViewer',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('review', fabric.models.fields.identities.KeyField()),
                ('name', models.TextField()),
                ('seen_at', models.BigIntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_review_viewer',
            },
        ),
        migrations.CreateModel(
            name='ReviewAssignment',
            fields=[
                ('review', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('run_id', fabric.models.fields.identities.KeyField()),
                ('holder', models.TextField(blank=True, default='')),
                ('lease', models.PositiveIntegerField(default=0)),
                ('claimed_at', models.BigIntegerField()),
                ('lease_until', models.BigIntegerField()),
                ('assigned_by', models.TextField(blank=True, default='')),
                ('taken_from', models.TextField(blank=True, db_default='', default='')),
                ('role', models.TextField(blank=True, db_default='', default='')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_review_assignment',
            },
        ),
        migrations.CreateModel(
            name='ProviderKey',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('provider', fabric.models.fields.identities.KeyField()),
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
            },
        ),
        migrations.CreateModel(
            name='NotificationPreference',
            fields=[
                ('member', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('mailed', models.BooleanField(db_default=True, default=True)),
                ('unwanted', models.TextField(blank=True, db_default='', default='')),
                ('changed_at', models.BigIntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_notification_preference',
            },
        ),
        migrations.CreateModel(
            name='Notification',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('change', fabric.models.fields.identities.KeyField(blank=True, db_default='', default='')),
                ('seq', models.IntegerField()),
                ('told', models.TextField()),
                ('channel', models.TextField()),
                ('target', fabric.models.fields.identities.KeyField()),
                ('member', fabric.models.fields.identities.KeyField(blank=True, db_default='', default='')),
                ('shown', models.TextField()),
                ('content', models.BinaryField()),
                ('at', models.BigIntegerField()),
                ('state', models.TextField(default='waiting')),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('attempts_before', models.PositiveIntegerField(default=0)),
                ('made_at', models.BigIntegerField()),
                ('next_at', models.BigIntegerField()),
                ('held_until', models.BigIntegerField(default=0)),
                ('sent_at', models.BigIntegerField(blank=True, null=True)),
                ('error', models.TextField(blank=True, default='')),
                ('run', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.run')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='ModelTest',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('model', fabric.models.fields.identities.KeyField()),
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
            },
        ),
        migrations.CreateModel(
            name='Member',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('roles', models.TextField(blank=True, default='')),
                ('service', models.BooleanField(db_default=False)),
                ('created_at', models.BigIntegerField()),
                ('created_by', models.TextField(blank=True, default='')),
                ('removed_at', models.BigIntegerField(blank=True, null=True)),
                ('removed_by', models.TextField(blank=True, default='')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='LoginLink',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('token_hash', fabric.models.fields.identities.KeyField(unique=True)),
                ('expires_at', models.BigIntegerField()),
                ('created_by', models.TextField(blank=True, db_default='')),
                ('used_at', models.BigIntegerField(blank=True, null=True)),
                ('purpose', models.TextField(blank=True, db_default='sign_in')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('token_hash', fabric.models.fields.identities.KeyField(unique=True)),
                ('email', models.TextField(blank=True, default='')),
                ('roles', models.TextField(blank=True, default='')),
                ('created_at', models.BigIntegerField()),
                ('created_by', models.TextField()),
                ('expires_at', models.BigIntegerField()),
                ('accepted_at', models.BigIntegerField(blank=True, null=True)),
                ('accepted_by', models.TextField(blank=True, default='')),
                ('revoked_at', models.BigIntegerField(blank=True, null=True)),
                ('revoked_by', models.TextField(blank=True, default='')),
                ('names_tried', models.PositiveSmallIntegerField(db_default=0)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Inbox',
            fields=[
                ('pk', models.CompositePrimaryKey('run_id', 'input_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.BigIntegerField()),
                ('visible_at', models.BigIntegerField()),
                ('consumed_seq', models.IntegerField(blank=True, null=True)),
                ('input_id', fabric.models.fields.identities.KeyField()),
                ('body', models.BinaryField()),
                ('wakes', models.SmallIntegerField(db_default=1, default=1)),
                ('format', models.SmallIntegerField(db_default=1, default=1)),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='inbox', to='fabric.run')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('about', models.TextField()),
                ('name', models.TextField()),
                ('reason', models.TextField()),
                ('placed_by', models.TextField()),
                ('placed_at', models.BigIntegerField()),
                ('lifted_by', models.TextField(blank=True, default='')),
                ('lifted_at', models.BigIntegerField(blank=True, null=True)),
                ('lifted_because', models.TextField(blank=True, default='')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Family',
            fields=[
                ('root_run_id', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('alive', models.IntegerField()),
                ('spawned', models.IntegerField()),
                ('cap_alive', models.IntegerField()),
                ('cap_spawned', models.IntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='FabricEditor',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('fabric', models.TextField()),
                ('name', models.TextField()),
                ('part', models.TextField(blank=True, default='')),
                ('page', models.TextField(blank=True, db_default='', default='')),
                ('seen_at', models.BigIntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_editor',
            },
        ),
        migrations.AddField(
            model_name='fabric',
            name='workspace',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='fabrics', to='fabric.workspace'),
        ),
        migrations.CreateModel(
            name='Event',
            fields=[
                ('pk', models.CompositePrimaryKey('run_id', 'seq', blank=True, editable=False, primary_key=True, serialize=False)),
                ('at', models.BigIntegerField()),
                ('seq', models.IntegerField()),
                ('version', models.SmallIntegerField()),
                ('more', models.SmallIntegerField(db_default=0, default=0)),
                ('kind', models.TextField()),
                ('header', fabric.models.fields.packed.PackedField()),
                ('payload', fabric.models.fields.packed.PackedField(null=True)),
                ('payload_hash', models.BinaryField()),
                ('hash', models.BinaryField()),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='events', to='fabric.run')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Review',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('step_id', models.TextField(blank=True, default='')),
                ('item', models.TextField()),
                ('reason', models.TextField(blank=True, default='')),
                ('failure_type', models.TextField(blank=True, default='')),
                ('stage', models.TextField(blank=True, default='')),
                ('required_role', models.TextField(blank=True, default='')),
                ('verbs', models.TextField()),
                ('digest', models.TextField()),
                ('opened_at', models.BigIntegerField()),
                ('due_at', models.BigIntegerField()),
                ('content', models.BinaryField()),
                ('decided_at', models.BigIntegerField(blank=True, null=True)),
                ('verb', models.TextField(blank=True, default='')),
                ('decided_by', models.TextField(blank=True, default='')),
                ('by_system', models.BooleanField(default=False)),
                ('alone', models.BooleanField(db_default=False)),
                ('approvals', models.PositiveSmallIntegerField(db_default=1)),
                ('asked', models.TextField(blank=True, db_default='')),
                ('onward_to', models.TextField(blank=True, db_default='')),
                ('barred', models.TextField(blank=True, db_default='')),
                ('agreed', models.TextField(blank=True, db_default='')),
                ('proposed_by', models.TextField(blank=True, db_default='')),
                ('remind_at', models.BigIntegerField(db_default=0)),
                ('onward_at', models.BigIntegerField(db_default=0)),
                ('reminded', models.BooleanField(db_default=False)),
                ('onward', models.BooleanField(db_default=False)),
                ('score', models.FloatField(blank=True, null=True)),
                ('tau', models.FloatField(blank=True, null=True)),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='reviews', to='fabric.run')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('author', models.TextField()),
                ('base_text', models.TextField(blank=True, default='')),
                ('text', models.TextField()),
                ('at', models.PositiveIntegerField(default=0)),
                ('last', models.PositiveIntegerField(default=0)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('changed_at', models.DateTimeField()),
                ('base', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.revision')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_draft',
            },
        ),
        migrations.CreateModel(
            name='Checkpoint',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('at', models.BigIntegerField()),
                ('body', models.BinaryField()),
                ('signature', models.BinaryField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='ChangeRequest',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('author', models.TextField()),
                ('caused_by', models.TextField(blank=True, db_default='')),
                ('text', models.TextField()),
                ('digest', models.TextField()),
                ('message', models.TextField(blank=True, default='')),
                ('state', models.TextField(default='open')),
                ('publish_at', models.BigIntegerField(blank=True, null=True)),
                ('opened_at', models.DateTimeField()),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('decided_by', models.TextField(blank=True, default='')),
                ('reason', models.TextField(blank=True, default='')),
                ('base', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.revision')),
                ('published', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.revision')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_change_request',
            },
        ),
        migrations.CreateModel(
            name='AuditRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.TextField()),
                ('days', models.PositiveIntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='AuditLine',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('at', models.BigIntegerField()),
                ('actor', models.TextField()),
                ('via', models.TextField(blank=True, default='')),
                ('kind', models.TextField()),
                ('subject', models.TextField(blank=True, default='')),
                ('body', models.BinaryField()),
                ('seq', models.BigIntegerField(blank=True, null=True)),
                ('hash', models.BinaryField(blank=True, null=True)),
                ('address', models.TextField(blank=True, null=True)),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_audit',
            },
        ),
        migrations.CreateModel(
            name='AuditForward',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('target', models.TextField()),
                ('seq', models.BigIntegerField(db_default=0)),
                ('sent_at', models.BigIntegerField(db_default=0)),
                ('failures', models.PositiveIntegerField(db_default=0)),
                ('next_at', models.BigIntegerField(db_default=0)),
                ('said', models.TextField(blank=True, default='')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='AuditFold',
            fields=[
                ('key', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
                ('until', models.BigIntegerField(db_index=True)),
                ('known', models.BooleanField()),
                ('times', models.PositiveIntegerField(db_default=0)),
                ('line', models.BinaryField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='AuditCut',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('first', models.BigIntegerField()),
                ('last', models.BigIntegerField()),
                ('at', models.BigIntegerField()),
                ('body', models.BinaryField()),
                ('signature', models.BinaryField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Attachment',
            fields=[
                ('pk', models.CompositePrimaryKey('run_id', 'position', blank=True, editable=False, primary_key=True, serialize=False)),
                ('position', models.PositiveSmallIntegerField()),
                ('name', models.TextField()),
                ('text', models.TextField()),
                ('bytes', models.PositiveIntegerField()),
                ('origin', models.TextField(db_default='', default='')),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='attachments', to='fabric.run')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='RunLabel',
            fields=[
                ('pk', models.CompositePrimaryKey('run_id', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('key', fabric.models.fields.identities.KeyField()),
                ('value', fabric.models.fields.identities.KeyField()),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='labels', to='fabric.run')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_run_label',
                'indexes': [models.Index(fields=['workspace', 'key', 'value', 'run'], name='run_label_value')],
            },
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('token_hash', fabric.models.fields.identities.KeyField(unique=True)),
                ('scopes', models.TextField()),
                ('fabrics', models.TextField(blank=True, db_default='')),
                ('created_at', models.BigIntegerField()),
                ('created_by', models.TextField(blank=True, default='')),
                ('expires_at', models.BigIntegerField()),
                ('revoked_at', models.BigIntegerField(blank=True, null=True)),
                ('last_used_at', models.BigIntegerField(blank=True, null=True)),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='WorkspacePolicyVersion',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('policy', models.TextField()),
                ('set_at', models.BigIntegerField()),
                ('set_by', models.TextField()),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_workspace_policy',
            },
        ),
        migrations.CreateModel(
            name='DraftStep',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('text', models.TextField()),
                ('what', models.TextField(blank=True, default='')),
                ('page', models.TextField(blank=True, default='')),
                ('folded', models.BooleanField(default=False)),
                ('at', models.DateTimeField()),
                ('draft', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='fabric.draft')),
            ],
            options={
                'db_table': 'fabric_draft_step',
                'constraints': [models.UniqueConstraint(fields=('draft', 'number'), name='draft_step_once')],
            },
        ),
        migrations.CreateModel(
            name='Identity',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('issuer', fabric.models.fields.identities.KeyField()),
                ('subject', fabric.models.fields.identities.KeyField()),
                ('refresh', models.BinaryField(db_default=b'')),
                ('checked_at', models.BigIntegerField(db_default=0)),
                ('asked_at', models.BigIntegerField(db_default=0)),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('issuer', 'subject'), name='identity_once')],
            },
        ),
        migrations.CreateModel(
            name='Snapshot',
            fields=[
                ('run', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, primary_key=True, related_name='+', serialize=False, to='fabric.run')),
                ('seq', models.IntegerField()),
                ('digest', models.TextField()),
                ('head', models.BinaryField()),
                ('state', models.BinaryField()),
                ('refs', models.TextField(db_default='[]', default='[]')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='GrantReservation',
            fields=[
                ('pk', models.CompositePrimaryKey('run_id', 'command_id', 'attempt', 'grant_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('command_id', fabric.models.fields.identities.KeyField()),
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
        migrations.CreateModel(
            name='SignIn',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('way', models.TextField()),
                ('browser', models.TextField(blank=True, default='')),
                ('address', models.TextField(blank=True, default='')),
                ('began_at', models.BigIntegerField()),
                ('seen_at', models.BigIntegerField()),
                ('until', models.BigIntegerField()),
                ('ended_at', models.BigIntegerField(blank=True, null=True)),
                ('ended_by', models.TextField(blank=True, default='')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['user', '-began_at'], name='sign_in_of_user')],
            },
        ),
        migrations.CreateModel(
            name='SharedBudget',
            fields=[
                ('scope', fabric.models.fields.identities.KeyField(primary_key=True, serialize=False)),
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
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), name='run_list'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('ended_at'), descending=True), models.F('id'), models.F('state'), condition=models.Q(('ended_at__isnull', False)), name='run_ended'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('took_us'), descending=True), models.F('id'), models.F('state'), condition=models.Q(('took_us__isnull', False)), name='run_took'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('final_cost_usd_micros'), descending=True), models.F('id'), models.F('state'), condition=models.Q(('final_cost_usd_micros__isnull', False)), name='run_cost'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('final_tokens'), descending=True), models.F('id'), models.F('state'), condition=models.Q(('final_tokens__isnull', False)), name='run_tokens'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.F('fabric'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), name='run_fabric'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), models.F('state'), condition=models.Q(('state__in', ['aborted', 'cancelled', 'completed', 'failed', 'stopped']), _negated=True), name='run_live'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), models.F('state'), models.F('ended_at'), models.F('recovered'), condition=models.Q(('state__in', ['aborted', 'cancelled', 'failed', 'stopped'])), name='run_bad'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('ended_at'), descending=True), models.F('id'), models.F('state'), condition=models.Q(('state__in', ['aborted', 'cancelled', 'failed', 'stopped'])), name='run_bad_ended'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), models.F('state'), condition=models.Q(('recovered', True)), name='run_recovered'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), models.F('cause'), models.F('failure'), condition=models.Q(('cause', ''), ('fired', ''), _negated=True), name='run_troubled'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(models.F('workspace'), models.F('session_key'), models.OrderBy(models.F('created_at'), descending=True), models.F('id'), condition=models.Q(('session_key', ''), _negated=True), name='run_session'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('incarnation__isnull', True), ('wake_at__isnull', False)), fields=['queue', 'priority', 'wake_at'], name='run_due'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('incarnation__isnull', False)), fields=['incarnation'], name='run_owned'),
        ),
        migrations.AddIndex(
            model_name='run',
            index=models.Index(condition=models.Q(('parent_run_id__isnull', False)), fields=['parent_run_id'], name='run_children'),
        ),
        migrations.AddConstraint(
            model_name='run',
            constraint=models.UniqueConstraint(condition=models.Q(('start_key', ''), _negated=True), fields=('workspace', 'start_key'), name='run_start_key_once'),
        ),
        migrations.AddConstraint(
            model_name='revision',
            constraint=models.UniqueConstraint(fields=('fabric', 'number'), name='revision_number_once'),
        ),
        migrations.AddConstraint(
            model_name='revision',
            constraint=models.UniqueConstraint(fields=('fabric', 'digest'), name='revision_digest_once'),
        ),
        migrations.AddConstraint(
            model_name='reviewviewer',
            constraint=models.UniqueConstraint(fields=('review', 'name'), name='review_viewer_once'),
        ),
        migrations.AddIndex(
            model_name='reviewassignment',
            index=models.Index(fields=['workspace', 'holder', 'lease_until'], name='review_assignment_holder'),
        ),
        migrations.AddConstraint(
            model_name='providerkey',
            constraint=models.UniqueConstraint(fields=('workspace', 'provider', 'host'), name='provider_key_once'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('state', 'waiting')), fields=['next_at'], name='notification_due'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(fields=['workspace', '-made_at', 'id'], name='notification_list'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('state', 'failed')), fields=['workspace', '-made_at'], name='notification_failed'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('change', ''), _negated=True), fields=['change'], name='notification_change'),
        ),
        migrations.AddConstraint(
            model_name='notification',
            constraint=models.UniqueConstraint(fields=('run', 'seq', 'target'), name='notification_once'),
        ),
        migrations.AddConstraint(
            model_name='modeltest',
            constraint=models.UniqueConstraint(fields=('workspace', 'model'), name='model_test_once'),
        ),
        migrations.AddConstraint(
            model_name='member',
            constraint=models.UniqueConstraint(condition=models.Q(('removed_at__isnull', True)), fields=('workspace', 'name'), name='member_once'),
        ),
        migrations.AddIndex(
            model_name='invitation',
            index=models.Index(fields=['workspace', '-created_at'], name='invitation_of_workspace'),
        ),
        migrations.AddIndex(
            model_name='inbox',
            index=models.Index(condition=models.Q(('consumed_seq__isnull', True)), fields=['visible_at'], name='inbox_waiting'),
        ),
        migrations.AddConstraint(
            model_name='hold',
            constraint=models.UniqueConstraint(condition=models.Q(('lifted_at__isnull', True)), fields=('workspace', 'about', 'name'), name='hold_open_once'),
        ),
        migrations.AddConstraint(
            model_name='family',
            constraint=models.CheckConstraint(condition=models.Q(('alive__gte', 0), ('alive__lte', models.F('cap_alive'))), name='family_alive'),
        ),
        migrations.AddConstraint(
            model_name='family',
            constraint=models.CheckConstraint(condition=models.Q(('spawned__gte', 0), ('spawned__lte', models.F('cap_spawned'))), name='family_spawned'),
        ),
        migrations.AddConstraint(
            model_name='fabriceditor',
            constraint=models.UniqueConstraint(fields=('workspace', 'fabric', 'name', 'page'), name='fabric_editor_page'),
        ),
        migrations.AddConstraint(
            model_name='fabric',
            constraint=models.UniqueConstraint(fields=('workspace', 'name'), name='fabric_name_once'),
        ),
        migrations.AddIndex(
            model_name='event',
            index=models.Index(condition=models.Q(('kind__in', ['alert_raised', 'review_approved', 'review_decided', 'review_opened', 'review_reminded'])), fields=['at'], name='event_notified'),
        ),
        migrations.AddIndex(
            model_name='review',
            index=models.Index(condition=models.Q(('decided_at__isnull', True)), fields=['workspace', 'due_at'], name='review_open_due'),
        ),
        migrations.AddIndex(
            model_name='review',
            index=models.Index(fields=['run', 'opened_at'], name='review_of_run'),
        ),
        migrations.AddIndex(
            model_name='review',
            index=models.Index(condition=models.Q(('item', 'follow_up')), fields=['workspace', '-opened_at'], name='review_follow_ups'),
        ),
        migrations.AddIndex(
            model_name='review',
            index=models.Index(condition=models.Q(('decided_at__isnull', False)), fields=['workspace', '-decided_at', 'id'], name='review_decided'),
        ),
        migrations.AddConstraint(
            model_name='review',
            constraint=models.UniqueConstraint(condition=models.Q(('decided_at__isnull', True)), fields=('run', 'step_id'), name='review_open_once'),
        ),
        migrations.AddConstraint(
            model_name='review',
            constraint=models.CheckConstraint(condition=models.Q(('by_system', True), ('verb__in', ('', 'reject', 'decline', 'withdrawn')), models.Q(('alone', True), ('approvals', 1)), django.db.models.lookups.Exact(django.db.models.functions.text.StrIndex(models.F('barred'), django.db.models.functions.text.Concat(models.Value('\n', output_field=models.TextField()), models.F('decided_by'), models.Value('\n', output_field=models.TextField()))), models.Value(0)), _connector='OR'), name='review_not_barred'),
        ),
        migrations.AddConstraint(
            model_name='review',
            constraint=models.CheckConstraint(condition=models.Q(('by_system', True), ('verb__in', ('', 'reject', 'decline', 'withdrawn')), django.db.models.lookups.Exact(django.db.models.functions.text.StrIndex(models.F('agreed'), django.db.models.functions.text.Concat(models.Value('\n', output_field=models.TextField()), models.F('decided_by'), models.Value('\n', output_field=models.TextField()))), models.Value(0)), _connector='OR'), name='review_two_people'),
        ),
        migrations.AddConstraint(
            model_name='review',
            constraint=models.CheckConstraint(condition=models.Q(('by_system', True), ('verb__in', ('', 'reject', 'decline', 'withdrawn')), ('proposed_by', ''), models.Q(('proposed_by', models.F('decided_by')), _negated=True), _connector='OR'), name='review_not_own_edit'),
        ),
        migrations.AddConstraint(
            model_name='draft',
            constraint=models.UniqueConstraint(fields=('workspace', 'name', 'author'), name='draft_once'),
        ),
        migrations.AddConstraint(
            model_name='checkpoint',
            constraint=models.UniqueConstraint(fields=('workspace', 'number'), name='checkpoint_number_once'),
        ),
        migrations.AddIndex(
            model_name='changerequest',
            index=models.Index(fields=['workspace', 'state', 'name'], name='change_request_state'),
        ),
        migrations.AddIndex(
            model_name='changerequest',
            index=models.Index(condition=models.Q(('publish_at__isnull', False), ('state', 'open')), fields=['publish_at'], name='change_request_due'),
        ),
        migrations.AddConstraint(
            model_name='changerequest',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'open')), fields=('workspace', 'name', 'author'), name='change_request_open_once'),
        ),
        migrations.AddConstraint(
            model_name='auditrule',
            constraint=models.UniqueConstraint(fields=('workspace', 'kind'), name='audit_rule_once'),
        ),
        migrations.AddIndex(
            model_name='auditline',
            index=models.Index(condition=models.Q(('seq__isnull', True)), fields=['at', 'id'], name='audit_unsealed'),
        ),
        migrations.AddIndex(
            model_name='auditline',
            index=models.Index(fields=['workspace', 'subject'], name='audit_subject'),
        ),
        migrations.AddIndex(
            model_name='auditline',
            index=models.Index(fields=['workspace', '-at', '-id'], name='audit_newest'),
        ),
        migrations.AddIndex(
            model_name='auditline',
            index=models.Index(fields=['workspace', 'actor', '-at'], name='audit_actor'),
        ),
        migrations.AddIndex(
            model_name='auditline',
            index=models.Index(fields=['workspace', 'kind', 'at'], name='audit_kind'),
        ),
        migrations.AddConstraint(
            model_name='auditline',
            constraint=models.UniqueConstraint(fields=('workspace', 'seq'), name='audit_seq_once'),
        ),
        migrations.AddConstraint(
            model_name='auditforward',
            constraint=models.UniqueConstraint(fields=('target', 'workspace'), name='audit_forward_once'),
        ),
        migrations.AddConstraint(
            model_name='auditcut',
            constraint=models.UniqueConstraint(fields=('workspace', 'first'), name='audit_cut_once'),
        ),
        migrations.AddConstraint(
            model_name='apitoken',
            constraint=models.UniqueConstraint(condition=models.Q(('revoked_at__isnull', True)), fields=('workspace', 'name'), name='api_token_name_once'),
        ),
        migrations.AddConstraint(
            model_name='workspacepolicyversion',
            constraint=models.UniqueConstraint(fields=('workspace', 'number'), name='workspace_policy_once'),
        ),
        migrations.CreateModel(
            name='StartStop',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('stopped_by', models.TextField()),
                ('stopped_at', models.BigIntegerField()),
                ('reason', models.TextField()),
                ('until_at', models.BigIntegerField(blank=True, null=True)),
                ('running', models.TextField()),
                ('left', fabric.models.fields.identities.KeyField(blank=True, db_default='', default='')),
                ('left_by', models.TextField()),
                ('ended_at', models.BigIntegerField(blank=True, null=True)),
                ('ended_by', models.TextField(blank=True, db_default='', default='')),
                ('fabric', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.fabric')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_start_stop',
                'indexes': [models.Index(condition=models.Q(('left', ''), _negated=True), fields=['left'], name='start_stop_left')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True)), fields=('workspace', 'fabric'), name='start_stop_fabric_once'), models.UniqueConstraint(condition=models.Q(('ended_at__isnull', True), ('fabric', None)), fields=('workspace',), name='start_stop_once'), models.CheckConstraint(condition=models.Q(('reason', ''), _negated=True), name='start_stop_has_reason')],
            },
        ),
        migrations.CreateModel(
            name='StoppedRun',
            fields=[
                ('pk', models.CompositePrimaryKey('stop_id', 'run_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('run_id', fabric.models.fields.identities.KeyField()),
                ('did', fabric.models.fields.identities.KeyField(blank=True, default='')),
                ('hold', models.PositiveIntegerField(default=0)),
                ('resumed', models.BooleanField(db_default=False, default=False)),
                ('stop', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='fabric.startstop')),
            ],
            options={
                'db_table': 'fabric_stopped_run',
            },
        ),
        migrations.CreateModel(
            name='RunJob',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('start_key', models.TextField(blank=True, default='')),
                ('request_digest', fabric.models.fields.identities.KeyField()),
                ('action', fabric.models.fields.identities.KeyField()),
                ('by_ids', models.BooleanField()),
                ('query', models.TextField(blank=True, default='')),
                ('reason', models.TextField(blank=True, default='')),
                ('asked_by', models.TextField()),
                ('via', models.TextField(blank=True, default='')),
                ('fabrics', models.TextField(blank=True, default='')),
                ('asked_at', models.BigIntegerField()),
                ('total', models.PositiveIntegerField()),
                ('done', models.PositiveIntegerField(default=0)),
                ('refused', models.PositiveIntegerField(default=0)),
                ('state', fabric.models.fields.identities.KeyField(default='running')),
                ('stopped_by', models.TextField(blank=True, default='')),
                ('ended_at', models.BigIntegerField(blank=True, null=True)),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_run_job',
            },
        ),
        migrations.CreateModel(
            name='RunJobItem',
            fields=[
                ('pk', models.CompositePrimaryKey('job_id', 'run_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('outcome', fabric.models.fields.identities.KeyField(blank=True, default='')),
                ('says', models.TextField(blank=True, default='')),
                ('holds_before', models.PositiveIntegerField(blank=True, null=True)),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='items', to='fabric.runjob')),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.run')),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_run_job_item',
            },
        ),
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('owner', models.TextField()),
                ('name', models.TextField()),
                ('folded', models.TextField()),
                ('query', models.TextField(blank=True, default='')),
                ('sort', models.TextField(blank=True, default='')),
                ('columns', models.TextField(blank=True, default='')),
                ('shared', models.BooleanField(default=False)),
                ('created_at', models.BigIntegerField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_saved_view',
            },
        ),
        migrations.CreateModel(
            name='ColumnChoice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner', models.TextField()),
                ('columns', models.TextField()),
                ('workspace', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace')),
            ],
            options={
                'db_table': 'fabric_column_choice',
                'constraints': [models.UniqueConstraint(fields=('workspace', 'owner'), name='column_choice_once')],
            },
        ),
        migrations.AddIndex(
            model_name='runjob',
            index=models.Index(condition=models.Q(('state__in', ['running', 'stopping'])), fields=['id'], name='run_job_open'),
        ),
        migrations.AddIndex(
            model_name='runjob',
            index=models.Index(fields=['workspace', '-id'], name='run_job_list'),
        ),
        migrations.AddConstraint(
            model_name='runjob',
            constraint=models.UniqueConstraint(condition=models.Q(('start_key', ''), _negated=True), fields=('workspace', 'start_key'), name='run_job_start_key_once'),
        ),
        migrations.AddIndex(
            model_name='runjobitem',
            index=models.Index(fields=['job', 'outcome', 'run'], name='run_job_item_next'),
        ),
        migrations.AddIndex(
            model_name='savedview',
            index=models.Index(condition=models.Q(('shared', True)), fields=['workspace', 'id'], name='saved_view_shared'),
        ),
        migrations.AddConstraint(
            model_name='savedview',
            constraint=models.UniqueConstraint(fields=('workspace', 'owner', 'folded'), name='saved_view_once'),
        ),
        migrations.RunPython(tune, migrations.RunPython.noop),
        migrations.RunPython(install, migrations.RunPython.noop),
        migrations.RunPython(install_admission, migrations.RunPython.noop),
    ]
