"""Prevents tables, pages and figures from overwriting the record of a run."""

from pathlib import Path

from holdfast.errors import Mistake

RECORDS = ("config.json", "matrix.json", "routes.json", "certificates.json")  # that an export has as well
RUN = (*RECORDS, "events.jsonl", "losses.json", "seconds.json", "weights", "state", "memory")


def check_no_record(path: Path) -> None:
    """Raises if a file or folder is, lies in, or is a link to a part of a run folder's record."""
    for place in {path.absolute(), path.resolve()}:
        for folder in place.parents:
            part = place.relative_to(folder).parts[0]
            if part in RUN and (folder / "config.json").exists():
                raise Mistake(f"{path} belongs to the record of the run {folder}: choose another place to write to")
