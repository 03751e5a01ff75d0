"""A build of the distribution takes its dependencies from requirements.in, so they are written once."""  # noqa: INP001

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class CustomMetadataHook(MetadataHookInterface):
    """Give Hatchling the lines of requirements.in as dependencies."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set ``dependencies``."""
        lines = Path(self.root, "requirements.in").read_text(encoding="utf-8").splitlines()
        metadata["dependencies"] = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
