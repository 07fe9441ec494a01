"""The command line in a process that ends with the one that started it."""

import json
import os
import signal
import sys
import threading
from contextlib import suppress


def main() -> None:
    """The first line on stdin says what to do; when stdin ends, so does this process, with all that it started."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.argv = ["holdfast", *order["said"]]  # what the run folder records
    from holdfast.cli.main import main as command  # takes seconds, and the leash is on already

    command(order["words"])


def _end_with_parent() -> None:
    os.read(0, 1)
    with suppress(ProcessLookupError):
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
