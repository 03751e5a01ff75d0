"""Sign-ins have rows, which end; people have second factors, recovery codes, and identities at a provider."""

import django.db.models.deletion
import fabric.models.keys
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('fabric', '0035_workspace_policy'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='UsedOnce',
            fields=[
                ('key', fabric.models.keys.KeyField(primary_key=True, serialize=False)),
                ('until', models.BigIntegerField(db_index=True)),
            ],
        ),
        migrations.AddField(
            model_name='loginlink',
            name='purpose',
            field=models.TextField(blank=True, db_default='sign_in'),
        ),
        migrations.CreateModel(
            name='RecoveryCode',
            fields=[
                ('id', fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False)),
                ('code_hash', fabric.models.keys.KeyField(unique=True)),
                ('used_at', models.BigIntegerField(blank=True, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='SecondFactor',
            fields=[
                ('id', fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False)),
                ('kind', models.TextField()),
                ('name', models.TextField()),
                ('credential', fabric.models.keys.KeyField(blank=True, null=True, unique=True)),
                ('secret', models.BinaryField()),
                ('counter', models.BigIntegerField(db_default=0)),
                ('made_at', models.BigIntegerField()),
                ('used_at', models.BigIntegerField(blank=True, null=True)),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.CreateModel(
            name='Identity',
            fields=[
                ('id', fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False)),
                ('issuer', fabric.models.keys.KeyField()),
                ('subject', fabric.models.keys.KeyField()),
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
            name='SignIn',
            fields=[
                ('id', fabric.models.keys.KeyField(default=fabric.models.keys.new_id, primary_key=True, serialize=False)),
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
    ]
