"""Every field of the database that holds a sealed secret, in one table: what `manage.py rekey` seals anew, and what each value is bound to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Model, QuerySet

from fabric.models import Identity, ProviderKey, SecondFactor
from fabric.models.sign_ins import TOTP


@dataclass(frozen=True, slots=True)
class SealedField:
    """One field. ``bound``: what else of a row its value is bound to, beside the table, the row's id and the field. ``only``: which rows have a sealed value."""

    model: type[Model]
    name: str
    bound: Callable[[Any], tuple[str, ...]]
    only: Mapping[str, Any] = field(default_factory=dict)

    def rows(self) -> QuerySet[Any]:
        """The rows that have a sealed value."""
        return self.model._default_manager.filter(**self.only).exclude(**{self.name: b""})

    def about(self, row: Any) -> tuple[str, ...]:
        """What a row's value is sealed for (``SecretBox.seal``)."""
        return (self.model._meta.db_table, str(row.pk), self.name, *self.bound(row))


PROVIDER_KEY = SealedField(ProviderKey, "sealed", lambda row: (row.workspace_id, row.provider, row.host))
TOTP_SECRET = SealedField(SecondFactor, "secret", lambda row: (str(row.user_id),), {"kind": TOTP})
REFRESH_TOKEN = SealedField(Identity, "refresh", lambda row: (row.issuer, row.subject))
SEALED = (PROVIDER_KEY, TOTP_SECRET, REFRESH_TOKEN)
