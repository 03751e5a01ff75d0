"""The whole audit trail: where acts came from, what repeats, what was cut, holds, rules, and what was forwarded."""

import django.db.models.deletion
import fabric.models.keys
from django.db import migrations, models

from fabric.migrations._append_only import install_cuts, remove_cuts


class Migration(migrations.Migration):

    dependencies = [
        ('fabric', '0037_sign_ins'),
    ]

    operations = [
        migrations.CreateModel(
            name='AuditCut',
            fields=[
                ('id', fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False)),
                ('first', models.BigIntegerField()),
                ('last', models.BigIntegerField()),
                ('at', models.BigIntegerField()),
                ('body', models.BinaryField()),
                ('signature', models.BinaryField()),
            ],
        ),
        migrations.CreateModel(
            name='AuditFold',
            fields=[
                ('key', fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ('until', models.BigIntegerField(db_index=True)),
                ('known', models.BooleanField()),
                ('times', models.PositiveIntegerField(db_default=0)),
                ('line', models.BinaryField()),
            ],
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
            ],
        ),
        migrations.CreateModel(
            name='AuditRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.TextField()),
                ('days', models.PositiveIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='Hold',
            fields=[
                ('id', fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False)),
                ('about', models.TextField()),
                ('name', models.TextField()),
                ('reason', models.TextField()),
                ('placed_by', models.TextField()),
                ('placed_at', models.BigIntegerField()),
                ('lifted_by', models.TextField(blank=True, default='')),
                ('lifted_at', models.BigIntegerField(blank=True, null=True)),
                ('lifted_because', models.TextField(blank=True, default='')),
            ],
        ),
        migrations.AddField(
            model_name='auditline',
            name='address',
            field=models.TextField(blank=True, null=True),
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
        migrations.AddField(
            model_name='auditcut',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace'),
        ),
        migrations.AddField(
            model_name='auditfold',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace'),
        ),
        migrations.AddField(
            model_name='auditforward',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace'),
        ),
        migrations.AddField(
            model_name='auditrule',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace'),
        ),
        migrations.AddField(
            model_name='hold',
            name='workspace',
            field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='fabric.workspace'),
        ),
        migrations.AddConstraint(
            model_name='auditcut',
            constraint=models.UniqueConstraint(fields=('workspace', 'first'), name='audit_cut_once'),
        ),
        migrations.AddConstraint(
            model_name='auditforward',
            constraint=models.UniqueConstraint(fields=('target', 'workspace'), name='audit_forward_once'),
        ),
        migrations.AddConstraint(
            model_name='auditrule',
            constraint=models.UniqueConstraint(fields=('workspace', 'kind'), name='audit_rule_once'),
        ),
        migrations.AddConstraint(
            model_name='hold',
            constraint=models.UniqueConstraint(condition=models.Q(('lifted_at__isnull', True)), fields=('workspace', 'about', 'name'), name='hold_open_once'),
        ),
        migrations.RunPython(install_cuts, remove_cuts),
    ]
