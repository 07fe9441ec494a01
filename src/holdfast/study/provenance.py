"""How a run was made: its versions, hardware and device, which distinguish repetitions of one run."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.runs.folder import RunFolder
from holdfast.versions import LIBRARIES


@dataclass(frozen=True)
class Provenance:
    """Versions, hardware and device, as far as they are recorded."""

    versions: Mapping[str, str] = field(default_factory=dict)
    hardware: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None  # that the command named
    folder: Path = field(default=Path(), compare=False)

    @classmethod
    def of(cls, folder: RunFolder) -> "Provenance":
        """Reads it from a run folder."""
        words = shlex.split(folder.record.get("command") or "")
        device = words[words.index("--device") + 1] if "--device" in words[:-1] else None
        return cls(folder.record.get("versions", {}), folder.record.get("hardware", {}), device, folder.path)

    @property
    def age(self) -> tuple[list[list[int]], float]:
        """A sort key, larger for newer versions (ours first), then for later runs; an export has no times."""
        numbers = [[int(part) for part in re.findall(r"\d+", self.versions.get(name, ""))] for name in LIBRARIES]
        return numbers, max((event["time"] for event in RunFolder(self.folder).events()), default=0.0)
