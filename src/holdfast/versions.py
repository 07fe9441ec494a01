"""The versions of what results depend on."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

VERSION = "0.2.0"  # ours
LIBRARIES = ("holdfast", "torch", "numpy", "gymnasium", "safetensors", "ale-py", "panda-gym", "pybullet", "minari")


@cache
def versions() -> dict[str, str]:
    """Those of Python and of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
