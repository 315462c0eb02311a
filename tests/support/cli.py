"""`fairway plan` as a user runs it: manifests in files, the answer from standard output."""

import contextlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairway.api.kinds import ApiObject
from fairway.cli.main import fairway, run
from support.objects import manifest

LENDING_NONE = """
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: drf
  - name: predicates
  - name: proportion
    arguments: {lending: none}
  - name: nodeorder
"""


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def plan(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        document: dict[str, Any] = json.loads(self.out)
        return document


def invoke(*arguments: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(fairway, arguments)
    return Result(code, out.getvalue(), err.getvalue())


def write(objects: Sequence[ApiObject | dict[str, Any]], folder: Path, name: str = "cluster.json") -> Path:
    items = [thing if isinstance(thing, dict) else manifest(thing) for thing in objects]
    file = folder / name
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


def run_plan(
    objects: Sequence[ApiObject | dict[str, Any]], folder: Path, *, policy: str = "", output: str = "json"
) -> Result:
    """`fairway plan --paranoid` on these objects."""
    arguments = ["plan", "-f", str(write(objects, folder)), "--now", "2026-01-02T00:00:00Z", "-o", output, "--paranoid"]
    if policy:
        file = folder / "policy.yaml"
        file.write_text(policy)
        arguments += ["--policy", str(file)]
    return invoke(*arguments)
