"""The location of the published data, which are large or not ours, and so not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

from fairway.errors import InputError

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def data_file(*parts: str) -> Path:
    """A file of the data folder; InputError explains how to set the folder."""
    folder = Path(os.environ.get("FAIRWAY_DATA") or DEFAULT)
    path = folder.joinpath(*parts)
    if not path.exists():
        raise InputError(f"{path}: no such file; set FAIRWAY_DATA to the folder that holds {parts[0]}/")
    return path
