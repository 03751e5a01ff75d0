"""Tenants."""

from __future__ import annotations

from django.db import models

from fabric.models.keys import KeyField, new_id


class Workspace(models.Model):
    """A tenant: every other table names it, and no selector reads across it."""

    id = KeyField(primary_key=True, default=new_id)
    name = models.TextField(unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name
