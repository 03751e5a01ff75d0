"""What is told may be about a change of a fabric, which no run has to do with."""

import django.db.models.deletion
from django.db import migrations, models

import fabric.models.keys


class Migration(migrations.Migration):
    dependencies = [("fabric", "0025_mail_kinds")]

    operations = [
        migrations.AddField(
            model_name="notification",
            name="change",
            field=fabric.models.keys.KeyField(blank=True, db_default="", default=""),
        ),
        migrations.AlterField(
            model_name="notification",
            name="run",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="fabric.run",
            ),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(
                condition=models.Q(("change", ""), _negated=True), fields=["change"], name="notification_change"
            ),
        ),
    ]
