"""What the documents and the code say of metrics and settings is the same."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec

from fairway.app.live.observing import RunMetrics
from fairway.app.live.program import LeaderElection
from fairway.app.live.settings import RunSettings
from fairway.cli.run import command
from fairway.kube.install.options import InstallOptions
from fairway.kube.install.output import objects

DOCS = Path(__file__).parents[2] / "docs"
NOT_FLAGS = {"policy_interval", "leader_election"}
"""Settings of the file alone; those of the election are flags of their own names."""


def test_every_metric_of_the_documents_is_there() -> None:
    text = "".join(path.read_text() for path in (DOCS / "kubernetes.md", DOCS / "security.md"))
    named = set(re.findall(r"`((?:fairway|scheduler)_[a-z_]+)", text))
    known = {metric.name for metric in RunMetrics().registry.collect()}
    assert named
    assert {name.removesuffix("_total") for name in named} <= {name.removesuffix("_total") for name in known}


def test_every_admission_policy_is_in_the_documents() -> None:
    """In the table of what it does when it cannot be evaluated, and in the command that deletes it."""
    printed = objects(InstallOptions(agent=True))
    policies = {one["metadata"]["name"]: one for one in printed if one["kind"] == "ValidatingAdmissionPolicy"}
    table = re.findall(
        r"^\| `(fairway-[a-z-]+)`[^|]*\|[^|]*\| (closed|open)", (DOCS / "security.md").read_text(), re.MULTILINE
    )
    fails = {name: "closed" if one["spec"]["failurePolicy"] == "Fail" else "open" for name, one in policies.items()}
    assert dict(table) == fails
    (deleted,) = re.findall(r"validatingadmissionpolicybindings ([a-z\s-]+)`", (DOCS / "kubernetes.md").read_text())
    assert {*deleted.split(), "fairway-agent"} == policies.keys()


OF_ALL = {"verbose", "no_color"}
"""Options that every command gets once the whole command line is loaded."""


def test_every_setting_of_the_file_has_a_flag_and_every_flag_a_setting() -> None:
    flags = {option.name for option in command.params if isinstance(option, click.Option)}
    fields = {field.name for field in msgspec.structs.fields(RunSettings)} - NOT_FLAGS
    elected = {"leader_elect": "enabled", "lease_namespace": "namespace", "lease_name": "name"}
    assert set(elected.values()) <= {field.name for field in msgspec.structs.fields(LeaderElection)}
    assert flags - elected.keys() - {"config"} - OF_ALL == fields
