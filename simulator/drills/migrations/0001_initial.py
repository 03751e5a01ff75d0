"""All tables of drills."""

import django.db.models.deletion
import fabric.models.fields.identities
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('fabric', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='DrillStop',
            fields=[
                ('workspace', models.OneToOneField(on_delete=django.db.models.deletion.PROTECT, primary_key=True, related_name='+', serialize=False, to='fabric.workspace')),
                ('pulled_by', models.TextField()),
                ('pulled_at', models.BigIntegerField()),
                ('reason', models.TextField()),
            ],
            options={
                'db_table': 'drills_drill_stop',
            },
        ),
        migrations.CreateModel(
            name='Drill',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('number', models.PositiveIntegerField()),
                ('mode', models.TextField(default='virtual')),
                ('scenario', fabric.models.fields.identities.KeyField(blank=True, db_default='', default='')),
                ('source', models.TextField(blank=True, db_default='', default='')),
                ('parameters', models.TextField(blank=True, db_default='{}', default='{}')),
                ('failure', fabric.models.fields.identities.KeyField(blank=True)),
                ('tier', fabric.models.fields.identities.KeyField()),
                ('seed', models.BigIntegerField()),
                ('cap_usd_micros', models.BigIntegerField(blank=True, null=True)),
                ('cap_s', models.PositiveIntegerField(blank=True, null=True)),
                ('covers', fabric.models.fields.identities.KeyField()),
                ('batch', fabric.models.fields.identities.KeyField()),
                ('place', models.PositiveSmallIntegerField(default=0)),
                ('asked_by', models.TextField()),
                ('via', models.TextField(blank=True, default='')),
                ('reason', models.TextField(blank=True, default='')),
                ('asked_at', models.BigIntegerField()),
                ('status', fabric.models.fields.identities.KeyField(default='queued')),
                ('holder', models.TextField(blank=True, default='')),
                ('started_at', models.BigIntegerField(blank=True, null=True)),
                ('ended_at', models.BigIntegerField(blank=True, null=True)),
                ('verdict', fabric.models.fields.identities.KeyField(blank=True, default='')),
                ('expected', models.TextField(blank=True, default='')),
                ('observed', models.TextField(blank=True, default='')),
                ('why', models.TextField(blank=True, default='')),
                ('stopped_by', models.TextField(blank=True, default='')),
                ('run_id', fabric.models.fields.identities.KeyField(blank=True, db_default='', default='')),
                ('body', models.TextField(blank=True, default='{}')),
                ('fabric', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.fabric')),
                ('revision', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.revision')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('cells', models.TextField(default='all')),
                ('mode', models.TextField(default='virtual')),
                ('scenario', fabric.models.fields.identities.KeyField(blank=True, default='')),
                ('cron', models.TextField()),
                ('reason', models.TextField(blank=True, default='')),
                ('made_by', models.TextField()),
                ('made_at', models.BigIntegerField()),
                ('paused_by', models.TextField(blank=True, default='')),
                ('next_at', models.BigIntegerField()),
                ('last_at', models.BigIntegerField(blank=True, null=True)),
                ('last_batch', fabric.models.fields.identities.KeyField(blank=True, default='')),
                ('last_said', models.TextField(blank=True, default='')),
                ('version', models.PositiveIntegerField(default=1)),
                ('fabric', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.fabric')),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='StoredScenario',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('name', fabric.models.fields.identities.KeyField()),
                ('source', models.TextField()),
                ('captured_from', fabric.models.fields.identities.KeyField(blank=True, default='')),
                ('made_by', models.TextField()),
                ('made_at', models.BigIntegerField()),
                ('changed_at', models.BigIntegerField()),
                ('version', models.PositiveIntegerField(default=1)),
                ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='fabric.workspace')),
            ],
        ),
        migrations.CreateModel(
            name='Strike',
            fields=[
                ('id', fabric.models.fields.identities.KeyField(default=fabric.models.fields.identities.new_id, primary_key=True, serialize=False)),
                ('run_id', fabric.models.fields.identities.KeyField()),
                ('fault', fabric.models.fields.identities.KeyField()),
                ('command_id', models.TextField()),
                ('attempt', models.PositiveIntegerField()),
                ('at', models.BigIntegerField()),
                ('drill', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='strikes', to='drills.drill')),
            ],
        ),
        migrations.AddIndex(
            model_name='drill',
            index=models.Index(fields=['fabric', 'mode', 'failure', 'tier', '-id'], name='drill_of_cell'),
        ),
        migrations.AddIndex(
            model_name='drill',
            index=models.Index(fields=['fabric', 'mode', 'covers', '-id'], name='drill_covers'),
        ),
        migrations.AddIndex(
            model_name='drill',
            index=models.Index(fields=['status', 'batch', 'place'], name='drill_open'),
        ),
        migrations.AddIndex(
            model_name='drill',
            index=models.Index(fields=['workspace', '-id'], name='drill_list'),
        ),
        migrations.AddIndex(
            model_name='drill',
            index=models.Index(fields=['batch', 'place'], name='drill_of_batch'),
        ),
        migrations.AddIndex(
            model_name='drill',
            index=models.Index(condition=models.Q(('run_id', ''), _negated=True), fields=['workspace', 'fabric', '-id'], name='drill_kept'),
        ),
        migrations.AddConstraint(
            model_name='drill',
            constraint=models.UniqueConstraint(condition=models.Q(('status__in', ['queued', 'running'])), fields=('fabric', 'mode', 'scenario', 'failure', 'tier'), name='drill_open_once'),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(condition=models.Q(('paused_by', '')), fields=['next_at'], name='drill_schedule_due'),
        ),
        migrations.AddIndex(
            model_name='schedule',
            index=models.Index(fields=['workspace', '-id'], name='drill_schedule_list'),
        ),
        migrations.AddConstraint(
            model_name='storedscenario',
            constraint=models.UniqueConstraint(fields=('workspace', 'name'), name='scenario_name_once'),
        ),
    ]
