"""The versions of Python and of the libraries that results depend on."""

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

VERSION = "0.2.0"  # of Holdfast
LIBRARIES = (
    "holdfast",
    "torch",
    "numpy",
    "gymnasium",
    "safetensors",
    "ale-py",
    "panda-gym",
    "pybullet",
    "minari",
    "metaworld",
    "mujoco",
)


@cache
def versions() -> dict[str, str]:
    """The version of Python and of each installed library, by name."""
    by_name = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            by_name[library] = version(library)
        except PackageNotFoundError:
            continue
    return by_name
