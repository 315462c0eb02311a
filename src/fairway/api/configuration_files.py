"""Files with one object of a known kind that configure a program: FairwayConfiguration, DeviceMapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairway.api.yaml_text import YamlProblem, YamlReader
from fairway.errors import InputError

MAX_FILE = 1 << 20
"""Bytes."""


def read_configuration(path: Path, api_version: str, kind: str) -> dict[str, Any]:
    """The fields of the object without apiVersion, kind and metadata. InputError says what is wrong, and where."""
    reader = YamlReader(_text(path, kind))
    try:
        documents = [document for document in reader.documents() if document is not None]
    except YamlProblem as problem:
        raise InputError(f"{path}:{problem.line}: {problem.message}") from None
    for line, message in reader.repeated[:1]:
        raise InputError(f"{path}:{line}: {message}")
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError(f"{path}: expected one object of kind {kind}")
    found = dict(documents[0])
    head = found.pop("apiVersion", None), found.pop("kind", None)
    if head != (api_version, kind):
        raise InputError(f"{path}: is {head[1]} of {head[0]}, expected {kind} of {api_version}")
    found.pop("metadata", None)
    return found


def _text(path: Path, kind: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE:
        raise InputError(f"{path}: more than {MAX_FILE} bytes, expected a {kind}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file: {error.reason}") from None
