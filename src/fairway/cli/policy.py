"""`fairway policy`: check and show policy files, import those of Volcano, and print the reference page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from fairway.cli.output import console, echo, output_option, print_structured, table, warn

if TYPE_CHECKING:
    from fairway.api.arguments import Catalog, CatalogEntry
    from fairway.api.policy import ActionConfig, PluginConfig, Policy
    from fairway.api.settings import Setting

INTRODUCTION = """\
# Policy reference

<!-- Written by `make docs` from the declarations in src/fairway/api. Change those, not this page. -->

A policy lists the actions that run in each cycle, in order, and the plugins that they use, tier by tier.

```yaml
actions: "enqueue, reserve, allocate, backfill"   # or a list of names and of {name, arguments}
configurations:                                   # arguments of actions may also be here
- name: reserve
  arguments:
    reservedNodePercent: 30
tiers:
- plugins:
  - name: drf
    enablePreemptable: false                      # a flag disables one hook of a plugin
  - name: nodeorder
    arguments:
      mostAllocated: 2
topology:                                         # node labels that define domains, the widest first
  levels: [topology.kubernetes.io/zone, topology.kubernetes.io/rack]
capacity:                                         # nodes with such a taint are not shared out to queues
  excludedTaints: ["node-role.kubernetes.io/control-plane", "node.kubernetes.io/*"]
compatibility: volcano                            # ignore, with a warning, what only Volcano has
```

Whatever a file leaves out is as in the built-in policy (`fairway policy show`). Unknown names, values of a wrong type
or out of range, and duplicates are errors that name their line; `fairway policy check FILE` lists all of them and
warns of flags without effect. A list may also be written as comma-separated text.
"""


@click.group(
    epilog="""\b
Examples:
  fairway policy show                       the built-in policy
  fairway policy show -o yaml > my.yaml     a starting point for your own
  fairway policy check my.yaml
  fairway policy import volcano-scheduler.conf"""
)
def command() -> None:
    """Check, show and import policy files."""


@command.command(
    short_help="Check a policy file and print all errors.",
    epilog="""\b
Examples:
  fairway policy check examples/policies/volcano.yaml""",
)
@click.argument("file")
@output_option
def check(file: str, output: str) -> None:
    """Check a policy file and print all errors. The exit status is 1 if there are any."""
    from fairway.api.policy import load_policy
    from fairway.cli.invocation import CheckFailed
    from fairway.errors import PolicyError
    from fairway.scheduler.backfill.run_ends import backfill_warnings
    from fairway.scheduler.eviction.entitlement import preempt_warnings
    from fairway.scheduler.plugins.installed import default_registry

    try:
        policy = load_policy(file, default_registry().catalog)
    except PolicyError as error:
        if output != "table":
            errors = [str(problem) for problem in error.problems]
            print_structured({"file": file, "ok": False, "errors": errors}, output)
        count = len(error.problems)
        raise CheckFailed(f"{error}\n{count} error{'s' * (count > 1)} in {file}") from None
    for warning in (*policy.warnings, *backfill_warnings(policy), *preempt_warnings(policy)):
        warn(warning)
    if output != "table":
        print_structured({"file": file, "ok": True, "errors": []}, output)
        return
    plugins = sum(1 for _ in policy.plugins())
    echo(f"{file}: ok, {len(policy.actions)} actions, {plugins} plugins in {len(policy.tiers)} tiers")


@command.command(
    short_help="Show all settings of a policy and their origin.",
    epilog="""\b
Examples:
  fairway policy show
  fairway policy show my.yaml -o json""",
)
@click.argument("file", required=False)
@output_option
def show(file: str | None, output: str) -> None:
    """Show all settings of the policy in FILE, or of the built-in policy, and the origin of each value.

    With -o yaml, the output is a policy file with all defaults written out.
    """
    from fairway.api.policy import default_policy, load_policy
    from fairway.scheduler.plugins.installed import default_registry

    catalog = default_registry().catalog
    policy = load_policy(file, catalog) if file else default_policy(catalog)
    if output == "json":
        print_structured(_as_data(policy, catalog), output)
    elif output == "yaml":
        echo("\n".join(_as_file(policy, catalog)))
    else:
        _print_table(policy, catalog)


@command.command(
    "import",
    short_help="Convert a Volcano scheduler configuration to a policy.",
    epilog="""\b
Examples:
  fairway policy import volcano-scheduler.conf > policy.yaml
  kubectl get configmap -n volcano-system volcano-scheduler-configmap -o yaml \\
    | fairway policy import - > policy.yaml""",
)
@click.argument("file")
def import_(file: str) -> None:
    """Convert the Volcano scheduler configuration in FILE to a policy, which is printed to standard output.

    FILE is a ConfigMap, the plain configuration, or - for standard input. Settings without a counterpart are listed on
    standard error, with what replaces them.
    """
    from fairway.api.peers import volcano_configuration
    from fairway.api.policy import parse_policy
    from fairway.cli.inputs import read_text
    from fairway.scheduler.plugins.installed import default_registry

    catalog = default_registry().catalog
    text = volcano_configuration(read_text(file), file)
    policy = parse_policy(text, file, catalog)
    echo("\n".join(_as_file(policy, catalog)))
    for warning in policy.warnings:
        warn(warning)


@command.command(
    short_help="Print all actions, plugins and settings as Markdown.",
    epilog="""\b
Examples:
  fairway policy reference > policy-reference.md""",
)
def reference() -> None:
    """Print the reference of all actions, plugins and settings as Markdown."""
    from fairway.scheduler.framework.plugin_set import Registry
    from fairway.scheduler.plugins import BUILT_IN

    echo(reference_page(Registry(BUILT_IN).catalog), nl=False)


def _settings(
    config: ActionConfig | PluginConfig, entry: CatalogEntry, policy: Policy
) -> Iterator[tuple[str, Any, str, str]]:
    """Name, value, unit and origin of every argument."""
    from fairway.api.settings import settings_of

    for setting in settings_of(entry.arguments).values():
        value = getattr(config.arguments, setting.field)
        yield setting.name, value, setting.unit, policy.origin(config.lines.get(setting.name, 0))


def _flags(plugin: PluginConfig, entry: CatalogEntry, policy: Policy) -> Iterator[tuple[str, bool, str]]:
    """Name, value and origin of the flags that have an effect, and of other flags that the file sets."""
    from fairway.api.arguments import FLAGS

    for flag in FLAGS:
        if flag in entry.flags or flag in plugin.lines:
            yield flag, plugin.flag(flag), policy.origin(plugin.lines.get(flag, 0))


def _as_data(policy: Policy, catalog: Catalog) -> dict[str, Any]:
    def arguments(config: ActionConfig | PluginConfig, entry: CatalogEntry) -> dict[str, Any]:
        return {
            name: {"value": value, "unit": unit, "from": origin}
            for name, value, unit, origin in _settings(config, entry, policy)
        }

    def action(config: ActionConfig) -> dict[str, Any]:
        given = arguments(config, catalog.actions[config.name])
        return {"name": config.name, "from": policy.origin(config.line), "arguments": given}

    def plugin(config: PluginConfig) -> dict[str, Any]:
        entry = catalog.plugins[config.name]
        flags = {flag: {"value": value, "from": origin} for flag, value, origin in _flags(config, entry, policy)}
        given = arguments(config, entry)
        return {"name": config.name, "from": policy.origin(config.line), "flags": flags, "arguments": given}

    return {
        "source": policy.source,
        **({"compatibility": "volcano"} if policy.compatible else {}),
        "topology": {"levels": list(policy.topology_levels)},
        "capacity": {"excludedTaints": list(policy.excluded_taints)},
        "actions": [action(config) for config in policy.actions],
        "tiers": [{"plugins": [plugin(config) for config in tier]} for tier in policy.tiers],
    }


def _as_file(policy: Policy, catalog: Catalog) -> Iterator[str]:
    """The lines of an equivalent policy file, with the origin of each value as a comment."""
    if policy.compatible:
        yield "compatibility: volcano"
    if policy.topology_levels:
        yield f"topology: {{levels: {_quoted(policy.topology_levels)}}}"
    yield f"capacity: {{excludedTaints: {_quoted(policy.excluded_taints)}}}"
    yield "actions:"
    for action in policy.actions:
        yield f"- name: {action.name}"
        yield from _argument_lines(action, catalog.actions[action.name], policy, "  ")
    yield "tiers:"
    for tier in policy.tiers:
        yield "- plugins:" if tier else "- plugins: []"
        for plugin in tier:
            entry = catalog.plugins[plugin.name]
            yield f"  - name: {plugin.name}"
            for flag, value, origin in _flags(plugin, entry, policy):
                yield f"    {flag}: {_quoted(value)}  # {origin}"
            yield from _argument_lines(plugin, entry, policy, "    ")


def _argument_lines(
    config: ActionConfig | PluginConfig, entry: CatalogEntry, policy: Policy, indent: str
) -> Iterator[str]:
    settings = list(_settings(config, entry, policy))
    if settings:
        yield f"{indent}arguments:"
    for name, value, unit, origin in settings:
        yield f"{indent}  {name}: {_quoted(value)}  # {f'{unit}, ' if unit else ''}{origin}"


def _print_table(policy: Policy, catalog: Catalog) -> None:
    out = console()
    out.print(f"Policy: {policy.source}\n")
    rows = table("setting", "value", "unit", "from")
    for number, action in enumerate(policy.actions, 1):
        rows.add_row(f"action {number}: {action.name}", "", "", policy.origin(action.line), style="bold")
        for name, value, unit, origin in _settings(action, catalog.actions[action.name], policy):
            rows.add_row(f"  {name}", _text(value), unit, origin)
    for number, tier in enumerate(policy.tiers, 1):
        for plugin in tier:
            entry = catalog.plugins[plugin.name]
            rows.add_row(f"tier {number}: {plugin.name}", "", "", policy.origin(plugin.line), style="bold")
            for flag, enabled, origin in _flags(plugin, entry, policy):
                rows.add_row(f"  {flag}", _text(enabled), "", origin)
            for name, value, unit, origin in _settings(plugin, entry, policy):
                rows.add_row(f"  {name}", _text(value), unit, origin)
    out.print(rows)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _quoted(value)


def _quoted(value: Any) -> str:
    """A value for a policy file: JSON is YAML, and quoted text is never misread."""
    import msgspec

    return msgspec.json.encode(value).decode()


def reference_page(catalog: Catalog) -> str:
    """The reference page of policy files, as Markdown, from the declarations of actions, plugins and settings."""
    return "\n".join(_reference_lines(catalog)).rstrip() + "\n"


def _reference_lines(catalog: Catalog) -> Iterator[str]:
    from fairway.api.arguments import FLAG_ALIASES, FLAGS
    from fairway.api.policy import DEFAULT_ACTIONS, DEFAULT_TIERS, EXCLUSIVE

    yield INTRODUCTION
    yield f"The built-in policy runs {', '.join(DEFAULT_ACTIONS)} and uses"
    yield f"{'; then '.join(', '.join(tier) for tier in DEFAULT_TIERS)}."
    yield from (f"`{first}` and `{other}` cannot be used together." for first, other in EXCLUSIVE)
    yield "\n## Actions\n"
    for entry in catalog.actions.values():
        yield from _reference_entry(entry)
    yield "## Plugins\n"
    for entry in catalog.plugins.values():
        yield from _reference_entry(entry)
    yield "## Flags\n"
    yield "Every plugin accepts these flags. The default is true; a flag has an effect if the plugin has that hook.\n"
    yield "| flag | hook | also read as |\n|---|---|---|"
    for flag, hook in FLAGS.items():
        aliases = [f"`{alias}`" for alias, meant in FLAG_ALIASES.items() if meant == flag]
        yield f"| `{flag}` | {hook} | {', '.join(aliases)} |"


def _reference_entry(entry: CatalogEntry) -> Iterator[str]:
    from fairway.api.settings import settings_of

    yield f"### {entry.name}\n"
    yield f"{entry.meaning}\n"
    if entry.flags:
        yield f"Flags with an effect: {', '.join(f'`{flag}`' for flag in entry.flags)}.\n"
    settings = settings_of(entry.arguments).values()
    if settings:
        yield "| argument | default | unit | allowed | meaning |\n|---|---|---|---|---|"
        yield from map(_reference_row, settings)
        yield ""


def _reference_row(setting: Setting) -> str:
    default = _text(setting.default)
    meaning = setting.meaning
    if setting.aliases:
        meaning += f" Also read as {', '.join(f'`{alias}`' for alias in setting.aliases)}"
        meaning += f" and `{setting.aliases[0]}.<name>`." if setting.is_map else "."
    cells = (f"`{setting.name}`", f"`{default}`", setting.unit, setting.expected, meaning)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
