"""The past of an agent: going back to the state before any change, and deleting what only the past needs."""

import hashlib
from copy import copy
from dataclasses import replace

from holdfast.agent.changes import Change, now
from holdfast.agent.index import File, Index, past_file
from holdfast.agent.store import Store
from holdfast.data.files import damaged, decoded
from holdfast.data.validation import validated
from holdfast.errors import Mistake


def store_at(store: Store, number: int) -> Store:
    """The store as it was after the change with this number, to be read."""
    found = copy(store)
    found.index = past_index(store, number)
    return found


def past_index(store: Store, number: int) -> Index:
    """The index after the change with this number, with the log of all changes until now."""
    number = validated("the number of a change", number, int)
    if number == store.index.number:
        raise Mistake(f"{store.directory.path} is already as it was after change {number}")
    past = next((past for past in store.index.past if past.number == number), None)
    if past is None:
        known = ", ".join(str(past.number) for past in store.index.past) or "none"
        raise Mistake(f"{store.directory.path} cannot go back to {number}; the states that are kept are: {known}")
    path = store.directory.path / past_file(number)
    content = store.directory.read_bytes(past_file(number))
    if hashlib.sha256(content).hexdigest() != past.sha256:
        raise Mistake(f"{path} was changed after it was written: restore it from a backup, or free the past with prune")
    try:
        return replace(Index.from_json(decoded(content, path)), changes=store.index.changes)
    except Mistake as problem:
        raise damaged(path, problem) from problem


def go_back(store: Store, number: int) -> None:
    """Makes the state after the change with this number the current one; that is a change, too."""
    found = past_index(store, number)
    store.change_to(found, Change(store.index.number + 1, "rollback", now(), to=number))


def check_past(store: Store) -> None:
    """Raises unless all files that the past needs are as they were written."""
    files: dict[str, File] = {}
    for past in store.index.past:
        stages = past_index(store, past.number).stages
        files |= {file.path: file for stage in stages for file in stage.files.values()}
    for path, file in files.items():
        if path not in store.index.used:
            store.tensors(file)


def prune(store: Store, keep: int) -> int:
    """Deletes what only the past needs, but for the last `keep` states; returns the bytes that it freed."""
    if validated("the number of states to keep", keep, int) < 0:
        raise Mistake(f"the number of states to keep must be at least 0, got {keep}")
    index = store.index.pruned(keep)
    freed = sum(store.directory.size(path) for path in index.unused if store.directory.exists(path))
    store.write_index(index)
    store.remove_unused()
    if not index.past:
        store.directory.remove_empty("history")
    return freed


def past_bytes(store: Store) -> int:
    """The bytes of files that only the past needs."""
    paths = store.index.pruned(0).unused
    return sum(store.directory.size(path) for path in paths if store.directory.exists(path))
