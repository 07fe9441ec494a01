"""NVIDIA's multi-process service, started for one sweep: with it, processes use a GPU at the same time."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which

from holdfast.errors import Mistake

PROGRAM = "nvidia-cuda-mps-control"
# A process of its own waits until its standard input is closed, which also happens if the sweep is killed.
STOP = f'cat; echo quit | {PROGRAM}; rm -rf -- "$1"'
PATIENCE = 60.0  # seconds to wait until the service has ended


@contextmanager
def gpu_service() -> Iterator[Mapping[str, str]]:
    """The environment variables with which a process uses the service; in the end the service is stopped.

    Its folders are new and private, so that a service of somebody else is neither used nor stopped.
    """
    if which(PROGRAM) is None:
        raise Mistake(
            f"--gpu-service needs the program {PROGRAM}, which comes with NVIDIA's driver and is not on this machine: "
            "install it, or leave out --gpu-service"
        )
    folder = Path(tempfile.mkdtemp(prefix="holdfast-gpu-"))  # only its owner may read it; short, as sockets need it
    variables = {"CUDA_MPS_PIPE_DIRECTORY": str(folder / "pipe"), "CUDA_MPS_LOG_DIRECTORY": str(folder / "log")}
    environment = {**os.environ, **variables}
    environment.pop("CUDA_VISIBLE_DEVICES", None)  # the service would number the GPUs again for its processes
    stopper = subprocess.Popen(
        ["sh", "-c", STOP, "sh", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,  # so that Ctrl-C reaches the sweep alone
    )
    try:
        for variable in variables.values():
            Path(variable).mkdir(mode=0o700)
        _start(folder / "start", environment)
        yield variables
    finally:
        assert stopper.stdin is not None
        stopper.stdin.close()
        with suppress(subprocess.TimeoutExpired):  # then it ends later, without us
            stopper.wait(PATIENCE)


def _start(said: Path, environment: Mapping[str, str]) -> None:
    """Starts the service; what it says is in a file, since a service would keep a pipe open."""
    with said.open("wb") as file:
        start = subprocess.run(
            [PROGRAM, "-d"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
            check=False,
        )
    if start.returncode:
        reason = " ".join(said.read_text(errors="replace").split()) or f"exit code {start.returncode}"
        raise Mistake(f"{PROGRAM} does not start ({reason}): leave out --gpu-service")
