"""What `manage.py check` says of this installation's settings beyond what every process refuses."""

from __future__ import annotations

from typing import Any

from django.core.checks import Tags, Warning, register  # noqa: A004 - Django's own name.

from console.secret_files import open_to_others
from console.variables import SECRETS


@register(Tags.security)
def secret_files_closed(**_: Any) -> list[Warning]:
    """Warn of each file with a secret that others than its owner may read."""
    return [Warning(sentence, id="console.W001") for sentence in open_to_others(SECRETS)]
