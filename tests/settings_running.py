"""The product's settings, for processes that a test starts as an operator would, and whose providers or faults are the tests' own."""

from console.settings import *  # noqa: F403 - The same; only that the tests were imported before.
