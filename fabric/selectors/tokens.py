"""The API's bearer tokens, as whoever manages them sees them: never the token, never its hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from fabric.core.actor import Actor
from fabric.models import ApiToken

TokenState = Literal["active", "expired", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenView:
    """One token. Instants are microseconds since the epoch, UTC."""

    id: str
    name: str
    user: str
    """For whom it acts."""
    scopes: tuple[str, ...]
    fabrics: tuple[str, ...]
    """The fabrics to which it is confined; empty: to none."""
    created_at: int
    created_by: str
    expires_at: int
    revoked_at: int | None
    last_used_at: int | None
    """To within a minute; None: never used."""

    def state(self, now: int) -> TokenState:
        """Whether it lets anybody in at ``now``, and why not."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= now else "active"


_COLUMNS = ("id", "name", "scopes", "fabrics", "created_at", "created_by", "expires_at", "revoked_at", "last_used_at")


def tokens_list(actor: Actor, *, user: str = "", limit: int | None = None) -> list[TokenView]:
    """The workspace's tokens, or those that act for ``user``, the newest first, those that were revoked or have expired among them."""
    rows = ApiToken.objects.filter(workspace_id=actor.workspace_id).order_by("-created_at", "id")
    if user:
        rows = rows.filter(user__username=user)
    rows = rows if limit is None else rows[:limit]
    return [_view(row) for row in rows.values(*_COLUMNS, "user__username")]


def _view(row: dict[str, Any]) -> TokenView:
    own = {name: row[name] for name in _COLUMNS}
    own["scopes"] = tuple(row["scopes"].split(","))
    own["fabrics"] = tuple(filter(None, row["fabrics"].split(",")))
    return TokenView(**own, user=row["user__username"])
