"""The reference page of policy files, written from the declarations of actions, plugins and settings."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fairway.api.arguments import FLAG_ALIASES, FLAGS, Catalog, CatalogEntry
from fairway.api.policy import DEFAULT_ACTIONS, DEFAULT_TIERS, EXCLUSIVE
from fairway.api.settings import Setting, settings_of

INTRODUCTION = """\
# Policy reference

<!-- Written by `make docs` from the declarations in src/fairway/api. Change those, not this page. -->

A policy says which actions run in each cycle, in which order, and which plugins they use, tier by tier.

```yaml
actions: "enqueue, reserve, allocate, backfill"   # or a list of names and of {name, arguments}
configurations:                                   # arguments of actions may also be here
- name: reserve
  arguments:
    reservedNodePercent: 30
tiers:
- plugins:
  - name: drf
    enablePreemptable: false                      # a flag switches one hook of a plugin off
  - name: nodeorder
    arguments:
      mostAllocated: 2
topology:                                         # node labels that make domains, the widest first
  levels: [topology.kubernetes.io/zone, topology.kubernetes.io/rack]
capacity:                                         # nodes with such a taint are not divided among queues
  excludedTaints: ["node-role.kubernetes.io/control-plane", "node.kubernetes.io/*"]
compatibility: volcano                            # leave out, with a warning, what only Volcano has
```

What a file leaves out is as in the built-in policy (`fairway policy show`). Every name that is not known,
every value of a wrong type or out of range, and everything given twice is an error that names its place;
`fairway policy check FILE` lists them all, and warns of flags that have no effect. A list may also be written as a
text with commas.
"""


def reference_page(catalog: Catalog) -> str:
    """The whole page, as Markdown."""
    return "\n".join(_lines(catalog)).rstrip() + "\n"


def _lines(catalog: Catalog) -> Iterator[str]:
    yield INTRODUCTION
    yield f"The built-in policy runs {', '.join(DEFAULT_ACTIONS)} and uses"
    yield f"{'; then '.join(', '.join(tier) for tier in DEFAULT_TIERS)}."
    yield from (f"`{one}` and `{other}` cannot be used together." for one, other in EXCLUSIVE)
    yield "\n## Actions\n"
    for entry in catalog.actions.values():
        yield from _entry(entry)
    yield "## Plugins\n"
    for entry in catalog.plugins.values():
        yield from _entry(entry)
    yield "## Flags\n"
    yield "Every plugin takes these flags. One not given is true; it acts where a plugin has that hook.\n"
    yield "| flag | hook | also read as |\n|---|---|---|"
    for flag, hook in FLAGS.items():
        aliases = [f"`{alias}`" for alias, meant in FLAG_ALIASES.items() if meant == flag]
        yield f"| `{flag}` | {hook} | {', '.join(aliases)} |"


def _entry(entry: CatalogEntry) -> Iterator[str]:
    yield f"### {entry.name}\n"
    yield f"{entry.meaning}\n"
    if entry.flags:
        yield f"Flags with an effect: {', '.join(f'`{flag}`' for flag in entry.flags)}.\n"
    settings = settings_of(entry.arguments).values()
    if settings:
        yield "| argument | default | unit | allowed | meaning |\n|---|---|---|---|---|"
        yield from map(_row, settings)
        yield ""


def _row(setting: Setting) -> str:
    default = setting.default if isinstance(setting.default, str) else msgspec.json.encode(setting.default).decode()
    meaning = setting.meaning
    if setting.aliases:
        meaning += f" Also read as {', '.join(f'`{alias}`' for alias in setting.aliases)}"
        meaning += f" and `{setting.aliases[0]}.<name>`." if setting.is_map else "."
    cells = (f"`{setting.name}`", f"`{default}`", setting.unit, setting.expected, meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
