"""Stores channels of chats to which members route reviews."""

from __future__ import annotations

from django.db import models
from django.db.models import Index, Q

from fabric.models.fields.identities import KeyField, new_id
from fabric.models.workspaces.workspace import Workspace

STANDING = Q(removed_at__isnull=True)


class ChatRoute(models.Model):
    """A channel that hears about the reviews of one fabric, or about those that ask one member. Instants are
    microseconds since the epoch, UTC.
    """

    id = KeyField(primary_key=True, default=new_id)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="+", db_index=False)
    fabric = models.TextField(blank=True, default="")
    """The fabric's name; empty: it is a member's own."""
    member = KeyField(blank=True, default="")
    """``Member.id``; empty: it is a fabric's."""
    channel = models.TextField()
    """A value of ``core.texts.notifications.CHATS``."""
    host = models.TextField()
    """Scheme and host of the address: the part that people may see."""
    sealed = models.BinaryField()
    """The address, sealed by ``secrets.secret_box``; empty once the route is removed."""
    added_at = models.BigIntegerField()
    added_by = models.TextField()
    removed_at = models.BigIntegerField(null=True, blank=True)

    class Meta:
        """Table name and index."""

        db_table = "fabric_chat_route"
        indexes = (Index(fields=["workspace", "added_at"], condition=STANDING, name="chat_route_standing"),)

    def __str__(self) -> str:
        return f"{self.channel} of {self.fabric or self.member}"
