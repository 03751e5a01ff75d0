"""Tokens are confined to fabrics, and end: those of before had other scopes, another form and no end, and are revoked."""

from __future__ import annotations

import time
from typing import Any

from django.db import migrations
from django.db.models import BigIntegerField, TextField


def revoke(apps: Any, schema_editor: Any) -> None:
    """Revokes the tokens of before: none of them has a checksum, so that none would be accepted."""
    tokens, now = apps.get_model("fabric", "ApiToken").objects, time.time_ns() // 1_000
    tokens.filter(revoked_at__isnull=True).update(revoked_at=now)
    tokens.filter(expires_at__isnull=True).update(expires_at=now)


class Migration(migrations.Migration):
    dependencies = [("fabric", "0032_sign_in_tries")]

    operations = [
        migrations.AddField("apitoken", "fabrics", TextField(blank=True, db_default="")),
        migrations.RunPython(revoke, migrations.RunPython.noop),
        migrations.AlterField("apitoken", "expires_at", BigIntegerField()),
    ]
