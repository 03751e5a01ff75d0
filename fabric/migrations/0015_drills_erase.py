from django.db import migrations

from fabric.migrations._append_only import install_drills, remove_drills


class Migration(migrations.Migration):
    """Runs of drills may be erased whole; everybody else's journals stay as they were written."""

    dependencies = [
        ('fabric', '0014_drills_workspace'),
    ]

    operations = [
        migrations.RunPython(install_drills, remove_drills),
    ]
