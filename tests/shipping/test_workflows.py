"""The workflows are files that only run elsewhere: what can be checked of them is checked here."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONS = sorted((GITHUB / "actions").glob("*/action.yml"))
HEADING = "Tests that needed a second attempt:"


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read(path)["jobs"]
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    if path.name == "action.yml":
        found: list[dict[str, Any]] = read(path)["runs"]["steps"]
        return found
    return [step for job in jobs(path).values() for step in job["steps"]]


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def name(path: Path) -> str:
    return str(path.relative_to(GITHUB))


def test_there_is_a_workflow_for_everything_that_is_checked_and_published() -> None:
    assert {path.stem for path in WORKFLOWS} == {"check", "test", "web", "kube", "nightly", "release"}
    assert set(jobs(GITHUB / "workflows" / "nightly.yml")) == {"fuzz", "chaos"}
    assert {"pypi", "image", "chart"} <= set(jobs(GITHUB / "workflows" / "release.yml"))


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=name)
def test_every_run_is_a_make_target_or_a_script(path: Path) -> None:
    """No logic in YAML: what CI runs can be run on any machine."""
    commands = [step["run"] for step in steps(path) if "run" in step]
    for command in commands:
        assert "\n" not in command.strip()
        words = command.split()
        if words[0] == "make":
            named = [word for word in words[1:] if "=" not in word and "{{" not in word and "}}" not in word]
            assert set(named) - {"github.event.pull_request.base.sha", "github.repository"} <= targets(), command
        else:
            assert os.access(ROOT / words[0], os.X_OK), command


def test_the_steps_of_ci_run_are_those_of_the_workflows() -> None:
    used = {
        word
        for path in WORKFLOWS
        for step in steps(path)
        for word in step.get("run", "").split()[1:]
        if step.get("run", "").startswith(".ci/run ")
    }
    assert used == {"check", "test", "web", "kube"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=name)
def test_permissions_are_least_and_every_job_ends(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["group"]
    for job, body in jobs(path).items():
        assert 0 < body["timeout-minutes"] <= 350, job
        writes = {scope for scope, access in body.get("permissions", {}).items() if access == "write"}
        expected = {"pypi": {"id-token"}, "image": {"packages"}, "chart": {"packages"}, "github": {"contents"}}
        assert writes == (expected.get(job, set()) if path.stem == "release" else set()), job


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=name)
def test_actions_are_pinned_by_their_full_version(path: Path) -> None:
    for step in steps(path):
        used = step.get("uses")
        if used is None:
            assert "run" in step
        elif used.startswith("./"):
            assert (ROOT / used / "action.yml").exists(), used
        else:
            assert re.fullmatch(r"[\w-]+/[\w/-]+@v\d+\.\d+\.\d+", used), used
            if used.startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", [*WORKFLOWS, *ACTIONS], ids=name)
def test_no_text_that_others_write_is_part_of_a_command(path: Path) -> None:
    """Names of branches and tags, titles and inputs may hold shell syntax: they are passed in the environment."""
    harmless = {"github.event.pull_request.base.sha", "github.repository"}
    for step in steps(path):
        assert set(re.findall(r"\$\{\{\s*(.*?)\s*\}\}", step.get("run", ""))) <= harmless


def test_what_others_write_is_not_run_by_make(tmp_path: Path) -> None:
    evil = f"$(touch {tmp_path / 'ran'})"
    environment = {**os.environ, "TAG": evil}
    done = subprocess.run(["make", "release-check"], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert "the tag is" in done.stderr
    assert not (tmp_path / "ran").exists()


def run_ci(folder: Path, *arguments: str) -> tuple[int, str, list[str]]:
    """`.ci/run` with a `make` that notes its target."""
    for program, text in {"make": 'echo "$1" >> "$NOTES/ran"', "chromium": ""}.items():
        (folder / program).write_text(f"#!/bin/sh\n{text}\n")
        (folder / program).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "NOTES": str(folder)}
    command = [str(ROOT / ".ci" / "run"), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    ran = folder / "ran"
    return done.returncode, done.stdout, ran.read_text().split() if ran.exists() else []


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [
        ([], ["check", "test", "web-test", "kube-test"]),
        (["check"], ["check"]),
        (["web"], ["web-test"]),
        (["test", "kube"], ["test", "kube-test"]),
    ],
)
def test_ci_run_takes_steps(arguments: list[str], ran: list[str], tmp_path: Path) -> None:
    status, output, targets_run = run_ci(tmp_path, *arguments)
    assert (status, targets_run) == (0, ran)
    assert output.endswith(f"{HEADING}\n  none\n")


def test_ci_run_refuses_an_unknown_step(tmp_path: Path) -> None:
    status, _, targets_run = run_ci(tmp_path, "lint")
    assert (status, targets_run) == (2, [])


def test_hooks_of_pre_commit_use_the_environment_of_the_makefile() -> None:
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    hooks = {hook["id"]: hook for hook in repository["hooks"]}
    assert set(hooks) == {"ruff-format", "ruff-check", "import-linter", "mypy", "commit-subject"}
    for hook in hooks.values():
        program, *rest = hook["entry"].split()
        assert program.startswith(".venv/bin/")
        assert all((ROOT / word).exists() for word in rest if word.endswith(".py"))
    assert hooks["commit-subject"]["stages"] == ["commit-msg"]


def test_templates_for_issues_and_pull_requests() -> None:
    forms = [path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.name != "config.yml"]
    assert [path.stem for path in forms] == ["bug", "feature"]
    for path in forms:
        form = read(path)
        assert form["name"]
        assert form["description"]
        ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
        assert len(ids) == len(set(ids))
    assert read(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["blank_issues_enabled"] is False
    assert "CHANGELOG.md" in (GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text()
