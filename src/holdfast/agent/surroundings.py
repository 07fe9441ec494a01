"""What a run was made with: versions, plugins, hardware and the command."""

import os
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from holdfast.registry import packages_of, plugins_of
from holdfast.training.ranks import ranks
from holdfast.versions import versions


def surroundings(suite: str, learner: str, backbone: str) -> dict[str, Any]:
    """Versions, plugins, hardware and command, for repeating a run of this suite, learner and backbone."""
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    hardware = {"processor": platform.machine(), "cores": os.cpu_count(), "accelerator": accelerator}
    program = Path(sys.argv[0])
    ours = "holdfast" in (program.name, program.parent.name)  # the script, or python -m holdfast
    together = ["torchrun", "--nproc-per-node", str(ranks().size), "-m"] if ranks().size > 1 else []
    command = shlex.join([*together, "holdfast", *sys.argv[1:]]) if ours else None
    return {
        "versions": {**versions(), **packages_of(suite, learner, backbone)},
        "plugins": [plugin.record() for plugin in plugins_of(suite, learner, backbone)],
        "hardware": hardware,
        "command": command,
    }
