"""The drills app: commands that run the engine in its virtual world, or measure it."""

from django.apps import AppConfig


class DrillsConfig(AppConfig):
    """Commands ``simulate`` and ``bench``."""

    name = "simulator.drills"
    label = "drills"
