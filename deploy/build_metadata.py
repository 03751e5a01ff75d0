"""What a build of the distribution takes from requirements.in: its dependencies. So they are written once."""  # noqa: INP001

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class CustomMetadataHook(MetadataHookInterface):
    """Hatchling's hook: the dependencies are the lines of requirements.in."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets ``dependencies``."""
        lines = Path(self.root, "requirements.in").read_text(encoding="utf-8").splitlines()
        metadata["dependencies"] = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
