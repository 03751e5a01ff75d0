"""Every field of the database that holds a sealed secret, in one table: what `manage.py rekey` seals anew, and what each value is bound to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model

from fabric.models import ProviderKey


@dataclass(frozen=True, slots=True)
class SealedField:
    """One field. ``bound``: what else of a row its value is bound to, beside the table, the row's id and the field."""

    model: type[Model]
    name: str
    bound: Callable[[Any], tuple[str, ...]]

    def about(self, row: Any) -> tuple[str, ...]:
        """What a row's value is sealed for (``SecretBox.seal``)."""
        return (self.model._meta.db_table, str(row.pk), self.name, *self.bound(row))


PROVIDER_KEY = SealedField(ProviderKey, "sealed", lambda row: (row.workspace_id, row.provider, row.host))
SEALED = (PROVIDER_KEY,)
