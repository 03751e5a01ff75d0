"""Whoever could sign in until now is a member: with the roles that their groups name, and with those of what everybody could do."""

import time

from django.conf import settings
from django.db import migrations

EVERYBODY = {"editor", "reviewer"}
OWNER = {"auditor", "editor", "finance", "operator", "owner", "reviewer", "safety", "viewer"}


def add(apps, schema_editor):
    """A row for each active user of an installation that had users before there were members."""
    label, _, model = settings.AUTH_USER_MODEL.partition(".")
    users = apps.get_model(label, model).objects.filter(is_active=True)
    members, workspaces = apps.get_model("fabric", "Member"), apps.get_model("fabric", "Workspace")
    there = workspaces.objects.filter(name="default").first()
    # Without the workspace nothing was ever asked for here; who comes first makes it, and is asked for an owner.
    if there is None:
        return
    have = set(members.objects.filter(workspace_id=there.id).values_list("name", flat=True))
    now = time.time_ns() // 1_000
    for user in users.prefetch_related("groups").order_by("pk"):
        groups = {group.name.replace(",", " ").strip() for group in user.groups.all()}
        roles = OWNER | groups if user.username == "owner" else EVERYBODY | groups
        if user.username not in have:
            row = {"user_id": user.pk, "name": user.username, "roles": ",".join(sorted(roles - {""}))}
            members.objects.create(workspace_id=there.id, created_at=now, created_by="system", **row)


class Migration(migrations.Migration):
    """Rows only."""

    dependencies = [
        ("fabric", "0016_people"),
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RunPython(add, migrations.RunPython.noop),
    ]
