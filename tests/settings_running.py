"""The product's settings, for processes that may import the tests: commands of the tests, and what a test starts with a provider or faults of its own."""

from console.settings import *  # noqa: F403 - The same; only that the tests were imported before.
from console.settings import INSTALLED_APPS

INSTALLED_APPS += ["tests.benchmarks", "tests.chaos"]
