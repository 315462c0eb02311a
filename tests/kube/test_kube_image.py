"""The Dockerfile, without Docker: the package is built from what the image's build gets, and no other file."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def stage(name: str) -> list[str]:
    """The instructions of a stage, each on one line; "" is the last."""
    text = re.sub(r"\\\n\s*", " ", DOCKERFILE)
    stages = re.split(r"^FROM \S+(?: AS (\S+))?\n", text, flags=re.MULTILINE)
    found = dict(zip(stages[1::2], stages[2::2], strict=True))
    return [line for line in found[name or None].splitlines() if line and not line.startswith("#")]


def copied(instructions: list[str], folder: Path) -> None:
    """What they copy from the sources; what comes from another stage is made up."""
    for line in instructions:
        words = shlex.split(line)
        if words[0] != "COPY":
            continue
        if words[1].startswith("--from="):
            (folder / words[3]).mkdir(parents=True)
            (folder / words[3] / "index.html").write_text("<html></html>")
            continue
        for source in words[1:-1]:
            assert is_sent(source), f".dockerignore keeps {source} back"
            target = folder / words[-1]
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__", "page"))
            else:
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, target)


def is_sent(source: str) -> bool:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    parents = [source, *map(str, Path(source).parents)]
    return any(f"!{path}" in lines for path in parents)


def test_the_package_is_built_from_what_is_copied_with_the_page_in_it(tmp_path: Path) -> None:
    copied(stage("build"), tmp_path)
    wheel = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        "out",
        ".",
    ]
    done = subprocess.run(wheel, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (tmp_path / "out").glob("*.whl")
    names = zipfile.ZipFile(built).namelist()
    assert {"fairway/cli/main.py", "fairway/py.typed", "fairway/web/page/index.html"} <= set(names)


def test_the_page_is_built_where_the_package_takes_it_from() -> None:
    instructions = stage("page")
    assert "WORKDIR /build/frontend" in instructions
    assert 'outDir: "../src/fairway/web/page"' in (ROOT / "frontend" / "vite.config.ts").read_text()
    assert "COPY --from=page /build/src/fairway/web/page src/fairway/web/page" in stage("build")
    assert is_sent("frontend/package.json")


def test_what_only_builds_and_tests_is_not_in_the_image() -> None:
    """The environment of the image comes from the production lock and the wheel alone, and has no pip of its own."""
    lines = "\n".join(stage("build"))
    into = re.findall(r"pip --python /opt/fairway install (.*)", lines)
    assert [line.split()[-1].strip("\\ ") for line in into] == ["locks/production.lock", "dist/*.whl"] or all(
        "locks/production.lock" in line or "dist/*.whl" in line for line in into
    )
    assert "venv --without-pip /opt/fairway" in lines
    text = (ROOT / "pyproject.toml").read_text()
    (dev,) = re.findall(r"^dev = \[(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    names = {re.split(r"[>=<\[]", name)[0].lower() for name in re.findall(r'"([^"]+)"', dev)} - {"fairway"}
    locked = {line.split("==")[0].lower() for line in (ROOT / "locks/production.lock").read_text().splitlines()}
    assert names.isdisjoint(locked)


def test_it_runs_without_root() -> None:
    last = stage("")
    assert "USER 65532:65532" in last
    assert last.index("USER 65532:65532") < last.index('ENTRYPOINT ["fairway"]')
