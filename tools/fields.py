"""`python -m tools.fields`: docs/supported-fields.md, from the tables that the reader of manifests works with.

A field is *honoured* if it is decoded (the structs of `fairway.api` have only fields that are used), *warned* about if
its kind declares that it has no effect here, and otherwise *without effect*: its API has it (`api.field_names`), and
Fairway does not look at it. Adding a field to a struct or to a table changes the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import inspect

import fairway.state.annotations as names
from fairway.api.kinds import KINDS, OTHER_FORMS, Kind
from fairway.api.shape import field_table, struct_in
from fairway.state.annotations import NOT_HONOURED
from fairway.state.device_requests import STRATEGY

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "supported-fields.md"
UNDERSTOOD = (
    names.GROUP_NAME,
    *names.GROUP_LABELS,
    *names.QUEUE_NAMES,
    *names.AS_LABELS,
    *names.INDEX_LABELS,
    names.GROUP_INDEX,
    names.REPLICATED_JOB,
    names.EXPECTED_RUNTIME,
    names.STARVING_AFTER,
    names.USER,
    names.HOLD,
    names.LAST_CHECKPOINT,
    names.NEVER_EVICT,
    STRATEGY,
)
LEFT_OUT = {"apiVersion", "kind", "metadata", "initContainers"}
"""Described once, at the top of the page."""
_MARKS = {"": "", "one": "", "list": "[]", "map": ".*"}
"""How the path of a field below is written."""
FLEET = "cluster.open-cluster-management.io"
HEAD = """\
# Supported fields

<!-- Written by `make docs` from the tables in src/fairway/api. Change those, not this page. -->

What Fairway does with each field of the objects that it reads:

- **honoured**: read and used;
- **warned**: the field is known to have no effect here, and a warning says so, and what to use instead;
- **without effect**: the API has the field, and Fairway does not use it; there is no warning;
- **refused**: an object that its API server would not accept, and a value that cannot be read, are errors with file and
  line, and nothing is decided. `--skip-invalid` sets such objects aside. A field that the API does not have is a
  warning, with `--strict` an error. The spec of a ResourceClass may not change.

`metadata` is read for names, namespaces, labels, annotations, owners, creation and deletion times, in every kind. What
is said of containers is true of init containers too.
Kinds that are not listed are skipped, with a warning that counts them. Templates of workloads (Job, JobSet, Volcano Job
and others) are expanded to the pods that their controllers would create, see [workloads.md](workloads.md).
"""


def page() -> str:
    parts = [HEAD]
    for title, kinds in (
        ("Kubernetes", [kind for kind in KINDS if _group(kind) == "Kubernetes"]),
        ("Volcano", [kind for kind in KINDS if _group(kind) == "Volcano"]),
        ("Other forms of PodGroup", list(OTHER_FORMS)),
        ("Fairway", [kind for kind in KINDS if _group(kind) == "Fairway"]),
        ("Open Cluster Management", [kind for kind in KINDS if _group(kind) == "Fleet"]),
    ):
        parts.append(f"## {title}\n")
        parts += [_section(kind) for kind in kinds]
    return "\n".join([*parts, *_annotations()])


def _group(kind: Kind) -> str:
    version = kind.api_versions[0]
    if "volcano.sh" in version:
        return "Volcano"
    if "fairway.dev" in version:
        return "Fairway"
    return "Fleet" if FLEET in version else "Kubernetes"


def _section(kind: Kind) -> str:
    info = inspect.type_info(kind.struct)
    assert isinstance(info, inspect.StructType)
    table = kind.name if kind not in OTHER_FORMS else ""
    honoured, unused = _fields(info, table)
    lines = [f"### {kind.name}\n", f"`{'`, `'.join(kind.api_versions)}`\n"]
    if honoured:
        lines.append(f"- honoured: {_listed(honoured)}")
    warned = {f"spec.{name}": instead for name, instead in kind.not_honoured.items()}
    lines += [f"- warned: `{name}` ({instead})" for name, instead in sorted(warned.items())]
    unused = [name for name in unused if name not in warned]
    if unused:
        lines.append(f"- without effect: {_listed(unused)}")
    return "\n".join(lines) + "\n"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _fields(info: inspect.StructType, table: str) -> tuple[list[str], list[str]]:
    """The honoured fields of a kind, and those of its API that are without effect; `metadata` is described once."""
    return _walk(info, table, "", (info.cls,))


def _walk(info: inspect.StructType, name: str, path: str, above: tuple[type, ...]) -> tuple[list[str], list[str]]:
    """Where all fields below one are honoured, that one stands for them."""
    honoured: list[str] = []
    unused: list[str] = []
    closed, known = field_table().get(name, (False, {}))
    decoded = {part.encode_name: part.type for part in info.fields}
    for part in sorted({*known, *decoded} - LEFT_OUT):
        if part not in decoded:
            unused.append(path + part)
        elif part in known or not closed or not path:
            many, inner = struct_in(decoded[part])
            if inner is None or inner.cls in above:
                honoured.append(path + part)
                continue
            below = known.get(part, "").strip("[]{}")
            used, not_used = _walk(inner, below, f"{path}{part}{_MARKS[many]}.", (*above, inner.cls))
            honoured += used if not_used or not path else [path + part]
            unused += not_used
    return honoured, unused


def _annotations() -> Iterator[str]:
    yield "## Labels and annotations\n"
    yield "Of pods, PodGroups and queues. One with a value that cannot be read is named in a warning.\n"
    yield f"- honoured: {_listed(sorted(UNDERSTOOD))}"
    yield from (f"- warned: `{name}` ({instead})" for name, instead in sorted(NOT_HONOURED.items()))
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
