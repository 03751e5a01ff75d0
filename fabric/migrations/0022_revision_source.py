"""A revision keeps the text that it was published with."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fabric", "0021_member_mail")]

    operations = [
        migrations.AddField(
            model_name="revision",
            name="source",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
