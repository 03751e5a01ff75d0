"""The engine as a Django app."""

from django.apps import AppConfig


class FabricConfig(AppConfig):
    """The engine's tables, services and commands."""

    name = "fabric"
    label = "fabric"
