"""The process of one run of a sweep; it ends with the process that started it."""

import json
import os
import signal
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import Any


def main() -> None:
    """Carries out the run that the first line of stdin describes; when stdin closes, the process group is killed."""
    launch = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = ["holdfast", *launch["words"]]  # the command that the run folder records
    from holdfast.cli.main import end_with_sentence

    end_with_sentence(partial(_carry_out, launch), "run")


def _carry_out(launch: dict[str, Any]) -> None:
    """Imports late, when the process already ends with its parent."""
    from holdfast.cli.main import load_plugins

    load_plugins(launch["plugins"])
    if "CUDA_MPS_PIPE_DIRECTORY" in os.environ:  # the cores are for all runs on this GPU
        from holdfast.gpu.waiting import wait_asleep

        wait_asleep()
    from holdfast.cli.run import run_and_show
    from holdfast.runs.spec import RunSpec

    run_and_show(RunSpec.from_json(launch["run"]))


def _end_with_parent() -> None:
    os.read(0, 1)
    with suppress(ProcessLookupError):
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
