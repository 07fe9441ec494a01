"""What can be chosen by name: suites, learners and backbones; built in, from entry points or from plugin files."""

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from holdfast.errors import Mistake

SHOWN = 12  # characters of a hash in a message


@dataclass(frozen=True)
class Plugin:
    """A file that adds suites, learners or backbones."""

    file: Path
    sha256: str

    def record(self) -> dict[str, str]:
        """The plugin as a run folder records it: the file's name without its folder, and its hash."""
        return {"file": self.file.name, "sha256": self.sha256}


class Registry(Mapping[str, Any]):
    """Objects of one kind by name; each is imported when it is first asked for."""

    def __init__(self, kind: str, table: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind  # as messages call it
        self.table = table  # the dictionary in a plugin file; in lower case, the group of entry points
        self.builtin = dict(builtin)  # name -> "module:attribute", so that it works from a source tree
        self.added: dict[str, Any] = {}
        self.owners: dict[str, Plugin] = {}  # the plugin that each added name comes from

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str) or name not in self:
            raise Mistake(f"there is no {self.kind} {shortened(name)}{self._hint(name)}; there are {', '.join(self)}")
        if name in self.added:
            return self.added[name]
        if name in self.builtin:
            return resolve(self.builtin[name])
        return self._installed()[name].load()

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.builtin, *self._installed(), *self.added]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self.added or name in self._installed()

    def _hint(self, name: object) -> str:
        near = get_close_matches(str(name)[:64], list(self), 1)
        return f" (did you mean {near[0]}?)" if near else ""

    def _installed(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=f"holdfast.{self.table.lower()}")}

    def add(self, objects: Mapping[str, Any], plugin: Plugin) -> None:
        """Adds what a plugin brings; a name that is taken is refused."""
        for name in objects:
            if name in self and self.owners.get(name) != plugin:
                raise Mistake(f"the plugin {plugin.file} brings a {self.kind} {name!r}, which exists: rename it")
        for name, found in objects.items():
            self.added[name], self.owners[name] = found, plugin


SUITES = Registry(
    "suite",
    "SUITES",
    {
        "toy": "holdfast.benchmarks.toy.suite:TOY",
        "toy-continuous": "holdfast.benchmarks.toy.suite:TOY_CONTINUOUS",
        "panda3": "holdfast.benchmarks.panda.suite:PANDA3",
        "atari5": "holdfast.benchmarks.atari.suite:ATARI5",
    },
)
LEARNERS = Registry(
    "learner",
    "LEARNERS",
    {
        "naive": "holdfast.learners.naive:NAIVE",
        "cumulative": "holdfast.learners.cumulative:CUMULATIVE",
        "ewc": "holdfast.learners.ewc:EWC",
        "si": "holdfast.learners.si:SI",
        "single": "holdfast.learners.single:SINGLE",
        "packnet": "holdfast.learners.packnet:PACKNET",
        "tsn-core": "holdfast.learners.sparse:TSN_CORE",
        "tsn-replaykl": "holdfast.learners.sparse:TSN_REPLAYKL",
        "affinity-a": "holdfast.learners.sparse:AFFINITY_A",
        "affinity-l": "holdfast.learners.sparse:AFFINITY_L",
        "affinity-h": "holdfast.learners.sparse:AFFINITY_H",
    },
)
NETS = Registry("backbone", "NETS", {"dt": "holdfast.nets.transformer:DtConfig", "mlp": "holdfast.nets.mlp:MlpConfig"})
PLUGINS: list[Plugin] = []  # those that were loaded, in order


def resolve(place: str) -> Any:
    """The object at "module:attribute"."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def load_plugin(path: str | Path) -> Plugin:
    """Runs a plugin file and adds what its dictionaries SUITES, LEARNERS and NETS name; a second time does nothing."""
    file = Path(path)
    try:
        content = file.read_bytes()
    except OSError as problem:
        raise Mistake(f"the plugin {file} cannot be read ({problem.strerror or problem}): check --plugin") from None
    plugin = Plugin(file.absolute(), hashlib.sha256(content).hexdigest())
    if any(known.sha256 == plugin.sha256 for known in PLUGINS):
        return plugin
    module = _run(plugin)
    tables = {registry: getattr(module, registry.table, {}) for registry in (SUITES, LEARNERS, NETS)}
    for registry, objects in tables.items():
        if not isinstance(objects, Mapping):
            raise Mistake(f"{registry.table} in the plugin {file} must be a dictionary of names and objects")
    if not any(tables.values()):
        raise Mistake(f"the plugin {file} defines no SUITES, LEARNERS or NETS: it must have one of these dictionaries")
    for registry, objects in tables.items():
        registry.add(objects, plugin)
    PLUGINS.append(plugin)
    return plugin


def _run(plugin: Plugin) -> Any:
    """The plugin's module, under a name that its content decides, so that other processes can import it again."""
    name = f"holdfast_plugin_{plugin.sha256[:16]}"
    spec = spec_from_file_location(name, plugin.file)
    if spec is None or spec.loader is None:
        raise Mistake(f"the plugin {plugin.file} is not a Python file: its name must end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        del sys.modules[name]
        raise Mistake(f"the plugin {plugin.file} fails when it is loaded: {problem!r}") from problem
    return module


def check_plugins(recorded: Sequence[Mapping[str, str]]) -> None:
    """Raises unless the plugins that a folder records are loaded, with the same content; none is loaded here."""
    for plugin in recorded:
        name, sha256 = plugin["file"], plugin["sha256"]
        if any(known.sha256 == sha256 for known in PLUGINS):
            continue
        if other := [known for known in PLUGINS if known.file.name == name]:
            raise Mistake(
                f"{name} is not the plugin that this was made with: its hash is {other[0].sha256[:SHOWN]}, "
                f"and {sha256[:SHOWN]} is recorded; bring the recorded version back, or begin a new folder"
            )
        raise Mistake(f"this was made with the plugin {name} ({sha256[:SHOWN]}): name it with --plugin {name}")
