"""Ways to damage a folder: each function damages one thing in it and returns the name of what it damaged."""

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from safetensors.torch import load, save
from torch import ones

HERE = "@here@"  # stands in a tree for JSON that Python would not write
DEEP = (900, 100_000)  # what Python's reader of JSON takes just so, and what it does not
RAW = (
    *("null", "true", "false", "0", "-1", "1", "0.5", "1e308", "1e999", "-1e999", "NaN", "Infinity", "1" * 5_000),
    *(str(2**31), str(2**63), str(-(2**63) - 1), str(10**300), "[]", "{}", "[[]]", "[null]", '{"a": {}}'),
    *('""', '"x"', '"NorthEast"', '"\\ud800"', '"a\\u0000b"', '"\\u001b[31mred"', '"[red]mark"', '"../../victim"'),
    *('"a\\nb"', '"/etc/passwd"', json.dumps("x" * 100_000)),
    *(depth * "[" + depth * "]" for depth in DEEP),
    *(depth * '{"a":' + "1" + depth * "}" for depth in DEEP),
)


@dataclass(frozen=True)
class Target:
    """A copy of a folder that may be damaged, and what is around it."""

    folder: Path
    victim: Path  # a folder outside
    others: Sequence[Path]  # other undamaged folders
    rng: Random

    def files(self, *suffixes: str) -> list[str]:
        """The names of its files."""
        found = (path for path in sorted(self.folder.rglob("*")) if path.is_file())
        return [str(path.relative_to(self.folder)) for path in found if not suffixes or path.suffix in suffixes]

    def folders(self) -> list[str]:
        """The names of its folders, and of some that it may have later."""
        found = {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_dir()}
        later = {"memory", "state", "tensorboard", "history"} if (self.folder / "weights").exists() else set()
        return sorted(found | later)


Damage = Callable[[Target], str]
Edit = Callable[[Any, Random], Any]

# Plain data


def edited(edit: Edit) -> Damage:
    """A damage that changes the tree of a record, or of one event."""

    def damage(target: Target) -> str:
        name = target.rng.choice(target.files(".json", ".jsonl"))
        path = target.folder / name
        if name.endswith(".jsonl"):
            lines = path.read_text().splitlines()
            at = target.rng.randrange(len(lines))
            lines[at] = filled(edit(json.loads(lines[at]), target.rng), target.rng)
            path.write_text("\n".join(lines) + "\n")
        else:
            path.write_text(filled(edit(json.loads(path.read_text()), target.rng), target.rng))
        return name

    damage.__name__ = edit.__name__
    return damage


def filled(tree: Any, rng: Random) -> str:
    """A tree as text; where an edit left its mark, something is said that Python would not write."""
    return json.dumps(tree).replace(json.dumps(HERE), rng.choice(RAW))


def _spot(tree: Any, rng: Random, kinds: type | tuple[type, ...]) -> tuple[Any, Any] | None:
    """A container and the key in it of a random value of these types; every depth is about as likely."""
    spots = [(tree, key) for key, value in _items(tree) if isinstance(value, kinds)]
    inner = [value for _, value in _items(tree) if isinstance(value, dict | list) and value]
    if inner and (not spots or rng.random() < 0.7):
        return _spot(rng.choice(inner), rng, kinds) or (rng.choice(spots) if spots else None)
    return rng.choice(spots) if spots else None


def _items(tree: Any) -> list[tuple[Any, Any]]:
    if isinstance(tree, dict):
        return list(tree.items())
    return list(enumerate(tree)) if isinstance(tree, list) else []


def _change(tree: Any, rng: Random, kinds: type | tuple[type, ...], change: Callable[[Any], Any]) -> Any:
    """The tree with one value of these types changed; the tree itself is one of its values."""
    spot = _spot(tree, rng, kinds)
    if spot is None or (isinstance(tree, kinds) and rng.random() < 0.1):
        return change(tree) if isinstance(tree, kinds) else HERE
    container, key = spot
    container[key] = change(container[key])
    return tree


def other_value(tree: Any, rng: Random) -> Any:
    return _change(tree, rng, (object,), lambda _: HERE)


def number_changed(tree: Any, rng: Random) -> Any:
    return _change(tree, rng, (int, float), lambda old: rng.choice([old + 1, old - 1, -old, 2 * old, old / 3, 0, 7]))


def text_changed(tree: Any, rng: Random) -> Any:
    def change(old: str) -> str:
        at = rng.randrange(len(old) + 1)
        return old[:at] + rng.choice("a0./\\\x1b\x00 é\ud800[") + old[at + rng.randrange(2) :]

    return _change(tree, rng, str, change)


def key_removed(tree: Any, rng: Random) -> Any:
    return _change(tree, rng, dict, lambda old: dict(rng.sample(list(old.items()), max(len(old) - 1, 0))))


def key_added(tree: Any, rng: Random) -> Any:
    return _change(
        tree, rng, dict, lambda old: {**old, rng.choice(["", "extra", "x" * 1_000, "\x1b[1m", "\ud800"]): HERE}
    )


def key_renamed(tree: Any, rng: Random) -> Any:
    def change(old: dict[str, Any]) -> dict[str, Any]:
        renamed = rng.choice([*old, ""])
        return {f"{name}x" if name == renamed else name: value for name, value in old.items()}

    return _change(tree, rng, dict, change)


def list_shortened(tree: Any, rng: Random) -> Any:
    return _change(tree, rng, list, lambda old: old[: rng.randrange(len(old) or 1)])


def list_lengthened(tree: Any, rng: Random) -> Any:
    return _change(tree, rng, list, lambda old: [*old, rng.choice([*old, HERE])])


def list_shuffled(tree: Any, rng: Random) -> Any:
    return _change(tree, rng, list, lambda old: rng.sample(old, len(old)))


def key_doubled(target: Target) -> str:
    name = target.rng.choice(target.files(".json"))
    path = target.folder / name
    before, quote, after = path.read_text().partition('": ')
    path.write_text(f'{before}": {target.rng.choice(RAW)}, "{before.rpartition(chr(34))[2]}{quote}{after}')
    return name


def of_another_run(target: Target) -> str:
    name = target.rng.choice(target.files())
    path = target.folder / name
    others = [other / name for other in target.others if (other / name).is_file()]
    if name.endswith(".safetensors"):
        others = [other for other in path.parent.glob("*.safetensors") if other != path] or others
    path.write_bytes(target.rng.choice(others).read_bytes() if others else b"another's")
    return name


# Bytes


def byte_flipped(target: Target) -> str:
    def flip(content: bytes) -> bytes:
        at = target.rng.randrange(len(content))
        return content[:at] + bytes([content[at] ^ 1 << target.rng.randrange(8)]) + content[at + 1 :]

    return _rewrite(target, flip)


def mutate(content: bytes, rng: Random) -> bytes:
    """Several of: flipped bits, forged numbers, a truncation, pieces that are there twice, other bytes."""
    found = bytearray(content)
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(found))
        match rng.randrange(5):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), b"\xff" * 7 + b"\x7f"])
            case 2:
                del found[max(at, 1) :]
            case 3:
                found[at:at] = found[at : at + rng.randrange(1, 64)]
            case 4:
                found[at] = rng.randrange(256)
    return bytes(found)


def mutated(target: Target) -> str:
    return _rewrite(target, lambda content: mutate(content, target.rng))


def cut_off(target: Target) -> str:
    return _rewrite(target, lambda content: content[: target.rng.randrange(len(content))])


def emptied(target: Target) -> str:
    return _rewrite(target, lambda _: b"")


def noise(target: Target) -> str:
    return _rewrite(target, lambda content: target.rng.randbytes(min(len(content), 1_000)))


def appended(target: Target) -> str:
    tails = [b"\n", b"{}", b"null\n", b"[1]\n", b'{"kind": "train"}\n', b"\xff\xfe\n", b"\x00" * 9]
    return _rewrite(target, lambda content: content + target.rng.choice(tails))


def header_forged(target: Target) -> str:
    """A header of safetensors that promises another length than it has, or tensors that are not there."""
    lengths = [0, 1, 7, 2**20, 2**40, 2**63, 2**64 - 1]

    def forge(content: bytes) -> bytes:
        if target.rng.random() < 0.7:
            return struct.pack("<Q", target.rng.choice(lengths)) + content[8:]
        header = json.dumps({"x": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
        return struct.pack("<Q", len(header)) + header

    name = _rewrite(target, forge, ".safetensors")
    return _rehash(target, name) if target.rng.random() < 0.5 else name


def tensor_changed(target: Target) -> str:
    """Another number in a tensor, with its new hash in the index: only a certificate can tell."""

    def change(content: bytes) -> bytes:
        tensors = {name: tensor.clone() for name, tensor in load(content).items()}
        names = sorted(name for name, tensor in tensors.items() if tensor.numel())
        if not names:  # a task that needs nothing of its own
            return save({"x": ones(1)})
        tensor = tensors[target.rng.choice(names)].reshape(-1)
        value = target.rng.choice([float("nan"), 0.0, 1.0])
        tensor[target.rng.randrange(len(tensor))] = value if tensor.is_floating_point() or value == value else 1
        return save(tensors)

    return _rehash(target, _rewrite(target, change, ".safetensors"))


def _rehash(target: Target, name: str) -> str:
    index = target.folder / "weights/index.json"
    record = json.loads(index.read_text())
    for stage in record["stages"]:
        for file in stage["files"].values():
            if file["path"] == name:
                file["sha256"] = hashlib.sha256((target.folder / name).read_bytes()).hexdigest()
    index.write_text(json.dumps(record))
    return name


def _rewrite(target: Target, change: Callable[[bytes], bytes], *suffixes: str) -> str:
    name = target.rng.choice(target.files(*suffixes))
    path = target.folder / name
    path.write_bytes(change(path.read_bytes()) if path.stat().st_size else b"x")
    return name


# What is no file, and what is not where it seems to be


def replaced(make: Callable[[Path, Target], None]) -> Damage:
    """A damage that puts something else where a file or a folder was."""

    def damage(target: Target) -> str:
        path = target.folder / target.rng.choice([*target.files(), *target.folders()])
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        make(path, target)
        return str(path.relative_to(target.folder))

    damage.__name__ = make.__name__
    return damage


def deleted(path: Path, target: Target) -> None: ...


def link_to_victim(path: Path, target: Target) -> None:
    path.symlink_to(target.victim if "." not in path.name else target.victim / "thesis.txt")


def link_to_the_same(path: Path, target: Target) -> None:
    same = [other / path.relative_to(target.folder) for other in target.others]
    path.symlink_to(target.rng.choice([other for other in same if other.exists()] or same))


def link_to_nowhere(path: Path, target: Target) -> None:
    path.symlink_to(target.victim / "new")


def link_to_itself(path: Path, target: Target) -> None:
    path.symlink_to(path.name)


def link_to_zeros(path: Path, target: Target) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path, target: Target) -> None:
    os.mkfifo(path)


def folder_instead(path: Path, target: Target) -> None:
    path.mkdir()
    (path / "mine.txt").write_text("a user's")


def file_instead(path: Path, target: Target) -> None:
    path.write_text("a user's")


def hole(path: Path, target: Target) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def stranger(target: Target) -> str:
    """Something of a user's own, which must stay."""
    name = target.rng.choice(
        ["weights/NOTES.txt", "weights/old/x", "notes.md", "state/mine", "weights/copy-9.9.safetensors"]
    )
    (target.folder / name).parent.mkdir(parents=True, exist_ok=True)
    (target.folder / name).write_text("a user's")
    return name


EDITS = (
    *(other_value, other_value, other_value, number_changed, text_changed, key_removed, key_added, key_renamed),
    *(list_shortened, list_lengthened, list_shuffled),
)
INSTEAD = (
    *(deleted, link_to_victim, link_to_the_same, link_to_nowhere, link_to_itself, link_to_zeros),
    *(pipe, folder_instead, file_instead, hole),
)
OF_BYTES: tuple[Damage, ...] = (byte_flipped, cut_off, emptied, noise, appended, *map(replaced, INSTEAD))
OF_WEIGHTS: tuple[Damage, ...] = (header_forged, tensor_changed)  # which an exported run has none of
DAMAGES: tuple[Damage, ...] = (
    *map(edited, EDITS),
    *(key_doubled, of_another_run, stranger),
    *OF_WEIGHTS,
    *OF_BYTES,
)
