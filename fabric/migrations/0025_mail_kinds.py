"""Members say of each kind of mail whether they want it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fabric", "0024_drafts")]

    operations = [
        migrations.AddField(
            model_name="notificationpreference",
            name="unwanted",
            field=models.TextField(blank=True, db_default="", default=""),
        )
    ]
