"""Where the published data is. It is large or not ours, so it is never part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

from fairway.errors import InputError

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def data_file(*parts: str) -> Path:
    """A file of the data folder; InputError says how to name the folder."""
    folder = Path(os.environ.get("FAIRWAY_DATA") or DEFAULT)
    path = folder.joinpath(*parts)
    if not path.exists():
        raise InputError(f"{path}: no such file; set FAIRWAY_DATA to the folder that holds {parts[0]}/")
    return path
