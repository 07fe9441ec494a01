"""The registries of suites, learners and backbones: built-in ones, entry points of packages, and plugin files."""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, entry_points
from pathlib import Path
from reprlib import repr as shortened
from types import ModuleType
from typing import Any

import cloudpickle

from holdfast.errors import Mistake

SHOWN = 12  # characters of a hash in a message


@dataclass(frozen=True)
class Plugin:
    """A file that adds suites, learners or backbones."""

    file: Path = field(compare=False)
    sha256: str
    content: bytes = field(repr=False, compare=False)

    @classmethod
    def read(cls, file: Path) -> "Plugin":
        """Reads a plugin file without running it."""
        try:
            content = file.read_bytes()
        except OSError as problem:
            raise Mistake(f"the plugin {file} cannot be read ({problem.strerror or problem}): check --plugin") from None
        return cls(file.absolute(), hashlib.sha256(content).hexdigest(), content)

    @property
    def module(self) -> str:
        """The module name, derived from the content so that two plugins cannot collide."""
        return f"holdfast_plugin_{self.sha256[:16]}"

    def record(self) -> dict[str, str]:
        """The plugin as a run folder records it: the file's name without its folder, and its hash."""
        return {"file": self.file.name, "sha256": self.sha256}


class Registry(Mapping[str, Any]):
    """A mapping from names to objects of one kind; an object is imported on first access."""

    def __init__(self, kind: str, table: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind  # the word for it in messages
        self.table = table  # the dictionary in a plugin file; in lower case, the group of entry points
        self.builtin = dict(builtin)  # name -> "module:attribute"; needs no installed metadata
        self.added: dict[str, Any] = {}
        self.owners: dict[str, Plugin] = {}  # the plugin that each added name comes from

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str) or name not in self:
            raise Mistake(
                f"there is no {self.kind} {shortened(name)}{self._hint(name)}; there are {', '.join(self)} "
                "(--plugin FILE.py adds those of a plugin)"
            )
        if name in self.added:
            return self.added[name]
        if name in self.builtin:
            return resolve(self.builtin[name])
        return self._loaded(self.installed()[name])

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.builtin, *self.installed(), *self.added]))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self.added or name in self.installed()

    def _loaded(self, point: EntryPoint) -> Any:
        try:
            return point.load()
        except Exception as problem:
            package = point.dist.name if point.dist else point.value
            why = _in_one_line(problem)
            raise Mistake(
                f"the {self.kind} {point.name} of the package {package} fails when it is loaded: {why}"
            ) from problem

    def get(self, name: Any, default: Any = None) -> Any:
        """The object with this name, or the default if there is none."""
        if name not in self:
            return default
        return self[name]

    def _hint(self, name: object) -> str:
        near = get_close_matches(str(name)[:64], list(self), 1)
        return f" (did you mean {near[0]}?)" if near else ""

    def installed(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages, by name."""
        return _installed(f"holdfast.{self.table.lower()}", tuple(sys.path))

    def package(self, name: str) -> Distribution | None:
        """The installed package that provides the object with this name, if any."""
        point = None if name in self.builtin or name in self.added else self.installed().get(name)
        return point.dist if point else None

    def check_free(self, names: Iterable[Any], plugin: Plugin) -> None:
        """Raises if a plugin must not add objects with these names."""
        for name in names:
            if not isinstance(name, str):
                raise Mistake(
                    f"{self.table} in the plugin {plugin.file} must have strings as keys, got {shortened(name)}"
                )
            if name in self:
                raise Mistake(
                    f"the plugin {plugin.file} defines the {self.kind} {name!r}, which already exists: rename it"
                )

    def add(self, objects: Mapping[str, Any], plugin: Plugin) -> None:
        """Adds the objects that a plugin defines."""
        self.added.update(objects)
        self.owners.update(dict.fromkeys(objects, plugin))


@cache
def _installed(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """The entry points of a group. Cached per search path, because the metadata of every package is read."""
    return {point.name: point for point in entry_points(group=group)}


SUITES = Registry(
    "suite",
    "SUITES",
    {
        "toy": "holdfast.benchmarks.toy.suite:TOY",
        "toy-continuous": "holdfast.benchmarks.toy.suite:TOY_CONTINUOUS",
        "panda3": "holdfast.benchmarks.panda.suite:PANDA3",
        "atari5": "holdfast.benchmarks.atari.suite:ATARI5",
        "cw10": "holdfast.benchmarks.continualworld.suite:CW10_SUITE",
        "cw20": "holdfast.benchmarks.continualworld.suite:CW20_SUITE",
        "mt50": "holdfast.benchmarks.continualworld.suite:MT50_SUITE",
    },
)
LEARNERS = Registry(
    "learner",
    "LEARNERS",
    {
        "naive": "holdfast.learners.naive:NAIVE",
        "cumulative": "holdfast.learners.cumulative:CUMULATIVE",
        "er": "holdfast.learners.er:ER",
        "ewc": "holdfast.learners.ewc:EWC",
        "si": "holdfast.learners.si:SI",
        "l2": "holdfast.learners.l2:L2",
        "multitask": "holdfast.learners.multitask:MULTITASK",
        "single": "holdfast.learners.single:SINGLE",
        "lora": "holdfast.learners.lora:LORA",
        "packnet": "holdfast.learners.packnet:PACKNET",
        "tsn-core": "holdfast.learners.sparse:TSN_CORE",
        "tsn-replaykl": "holdfast.learners.sparse:TSN_REPLAYKL",
        "affinity-a": "holdfast.learners.sparse:AFFINITY_A",
        "affinity-l": "holdfast.learners.sparse:AFFINITY_L",
        "affinity-h": "holdfast.learners.sparse:AFFINITY_H",
        "random-routing": "holdfast.learners.sparse:RANDOM_ROUTING",
        "independent": "holdfast.learners.sparse:INDEPENDENT",
    },
)
NETS = Registry("backbone", "NETS", {"dt": "holdfast.nets.transformer:DtConfig", "mlp": "holdfast.nets.mlp:MlpConfig"})
REGISTRIES = (SUITES, LEARNERS, NETS)
PLUGINS: list[Plugin] = []  # the loaded plugins, in order


def installed_packages() -> list[str]:
    """The names of the installed packages that add suites, learners or backbones."""
    points = [point for registry in REGISTRIES for point in registry.installed().values()]
    return sorted({point.module.partition(".")[0] for point in points})


def resolve(place: str) -> Any:
    """The object at "module:attribute"."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


def load_plugin(path: str | Path) -> Plugin:
    """Runs a plugin file and adds the objects in its dictionaries SUITES, LEARNERS and NETS; loads a file only once."""
    plugin = Plugin.read(Path(path))
    add_plugin(plugin)
    return plugin


def add_plugin(plugin: Plugin) -> None:
    """Runs a plugin and adds its objects, unless it is already loaded."""
    if plugin in PLUGINS:
        return
    module = _run(plugin)
    try:
        _register(plugin, module)
    except Mistake:
        del sys.modules[plugin.module]
        raise
    cloudpickle.register_pickle_by_value(module)  # other processes cannot import it
    PLUGINS.append(plugin)


def _run(plugin: Plugin) -> ModuleType:
    """Runs the content that was hashed, as a module."""
    module = ModuleType(plugin.module)
    module.__file__ = str(plugin.file)
    sys.modules[plugin.module] = module
    try:
        exec(compile(plugin.content, plugin.file, "exec"), module.__dict__)
    except Exception as problem:
        del sys.modules[plugin.module]
        raise Mistake(f"the plugin {plugin.file} fails when it is loaded: {_in_one_line(problem)}") from problem
    return module


def _register(plugin: Plugin, module: ModuleType) -> None:
    """Adds all objects in the dictionaries of a plugin, or none of them if one is invalid."""
    tables = [(registry, getattr(module, registry.table, {})) for registry in REGISTRIES]
    for registry, objects in tables:
        if not isinstance(objects, Mapping):
            raise Mistake(f"{registry.table} in the plugin {plugin.file} must be a dictionary of names and objects")
        registry.check_free(objects, plugin)
    if not any(objects for _, objects in tables):
        raise Mistake(
            f"the plugin {plugin.file} defines no SUITES, LEARNERS or NETS: it must have one of these dictionaries"
        )
    for registry, objects in tables:
        registry.add(objects, plugin)


def _in_one_line(problem: Exception) -> str:
    return " ".join(f"{type(problem).__name__}: {problem}".split())


def plugins_of(suite: str, learner: str, backbone: str) -> list[Plugin]:
    """The plugins that define this suite, learner and backbone, each once."""
    names = [(SUITES, suite), (LEARNERS, learner), (NETS, backbone)]
    owners = [registry.owners[name] for registry, name in names if name in registry.owners]
    return list(dict.fromkeys(owners))


def packages_of(suite: str, learner: str, backbone: str) -> dict[str, str]:
    """The versions of the installed packages that provide this suite, learner and backbone."""
    names = [(SUITES, suite), (LEARNERS, learner), (NETS, backbone)]
    packages = [registry.package(name) for registry, name in names]
    return {package.name: package.version for package in packages if package}


def check_plugins(recorded: Sequence[Mapping[str, str]]) -> None:
    """Raises unless the plugins recorded in a folder are loaded with the same content; loads none itself."""
    for plugin in recorded:
        name, sha256 = plugin["file"], plugin["sha256"]
        if any(known.sha256 == sha256 for known in PLUGINS):
            continue
        if other := [known for known in PLUGINS if known.file.name == name]:
            raise Mistake(
                f"{name} is not the plugin that this folder was made with: its hash is {other[0].sha256[:SHOWN]}, "
                f"and {sha256[:SHOWN]} is recorded; load the recorded version, or start a new folder"
            )
        raise Mistake(
            f"this folder was made with the plugin {name} ({sha256[:SHOWN]}): add --plugin {name}, "
            f'or in Python holdfast.plugin("{name}")'
        )
