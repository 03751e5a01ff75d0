"""What was decided is listed by when it was: the newest first, without a look at what is open."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fabric", "0019_review_queue")]

    operations = [
        migrations.AddIndex(
            model_name="escalation",
            index=models.Index(
                fields=["workspace", "-decided_at", "id"],
                condition=models.Q(("decided_at__isnull", False)),
                name="escalation_decided",
            ),
        ),
    ]
