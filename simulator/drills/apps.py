"""The drills app: the table of drills, and commands that run the engine in its virtual world, measure it, or stand in for what it talks to."""

from django.apps import AppConfig


class DrillsConfig(AppConfig):
    """Its table; its commands are in ``management``."""

    name = "simulator.drills"
    label = "drills"
