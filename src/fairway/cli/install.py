"""`fairway install`: print what a cluster needs to run Fairway."""

from __future__ import annotations

import re

import click

from fairway.cli.output import echo


@click.command(
    epilog="""\b
Examples:
  fairway install --crds-only | kubectl apply -f -     first the CRDs
  fairway install | kubectl apply -f -                 then everything else
  fairway install --scheduler-names volcano --no-volcano-crds
  fairway install fleet | kubectl apply -f -           the placer, on a hub
  fairway install -o helm --out chart/                 a Helm chart
  fairway install -o kustomize --out base/"""
)
@click.argument("part", type=click.Choice(["scheduler", "fleet"]), default="scheduler")
@click.option(
    "--namespace", metavar="NAME", default="fairway-system", show_default=True, help="Namespace to install into."
)
@click.option("--image", metavar="IMAGE", help="Container image, preferably by digest.  [default: fairway:VERSION]")
@click.option(
    "--replicas",
    type=click.IntRange(1, 9),
    default=2,
    show_default=True,
    help="Number of replicas; one is active, the others are on standby.",
)
@click.option(
    "--scheduler-names",
    metavar="NAMES",
    default="fairway",
    show_default=True,
    help="Comma-separated scheduler names; pods with one of them as schedulerName are scheduled.",
)
@click.option("--policy", "policy_file", metavar="FILE", help="Initial policy file. Defaults to the built-in policy.")
@click.option("--crds-only", is_flag=True, help="Print only the CustomResourceDefinitions.")
@click.option(
    "--volcano-crds/--no-volcano-crds",
    default=True,
    help="Include the CRDs of Volcano; leave them out if Volcano is installed.",
)
@click.option("--admission/--no-admission", default=True, help="Include the admission policies.")
@click.option("--service-monitor", is_flag=True, help="Include a ServiceMonitor for the Prometheus operator.")
@click.option(
    "--agent", is_flag=True, help="Include the node agent, which offers plugin devices by class (see docs/agent.md)."
)
@click.option(
    "--agent-publish",
    type=click.Choice(["slices", "annotation"]),
    default="slices",
    show_default=True,
    help="How agents publish devices; `annotation` is for clusters without DRA.",
)
@click.option(
    "--web",
    is_flag=True,
    help="Include the web page, in a container of its own, on port 8443 for users of the cluster.",
)
@click.option(
    "--web-tls-secret",
    metavar="NAME",
    default="",
    help="With --web: name of the Secret with the page's TLS certificate.",
)
@click.option(
    "--allow-actions", is_flag=True, help="With --web: allow actions on jobs, with each user's own permissions."
)
@click.option(
    "--default-for-label",
    metavar="KEY=VALUE",
    default="",
    help="Make Fairway the default scheduler in namespaces with this label.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "kustomize", "helm"]),
    default="yaml",
    show_default=True,
    help="Output format: a YAML stream, a JSON list, a kustomize base, or a Helm chart.",
)
@click.option("--out", metavar="DIR", help="Directory to write to; required for kustomize and helm.")
def command(
    part: str,
    namespace: str,
    image: str | None,
    replicas: int,
    scheduler_names: str,
    policy_file: str | None,
    crds_only: bool,
    volcano_crds: bool,
    admission: bool,
    service_monitor: bool,
    agent: bool,
    agent_publish: str,
    web: bool,
    web_tls_secret: str,
    allow_actions: bool,
    default_for_label: str,
    output: str,
    out: str | None,
) -> None:
    """Print the manifests that install Fairway on a cluster: CRDs, RBAC, admission policies and the scheduler.

    With `fleet`, print the manifests that install the fleet placer on an OCM hub. Options about pods, policies and
    CRDs do not apply to it.
    """
    from fairway.cli.inputs import read_policy, read_text
    from fairway.errors import InputError
    from fairway.kube.install import (
        DEFAULT_POLICY,
        InstallOptions,
        helm_chart,
        json_list,
        kustomize_base,
        stream,
    )

    names = tuple(name.strip() for name in scheduler_names.split(","))
    _check_names("--namespace", [namespace])
    _check_names("--scheduler-names", names)
    if default_for_label and not re.fullmatch(
        r"[A-Za-z0-9][-A-Za-z0-9_./]*=[A-Za-z0-9]?[-A-Za-z0-9_.]*", default_for_label
    ):
        raise InputError(f"--default-for-label: is {default_for_label!r}, expected a namespace label KEY=VALUE")
    policy = DEFAULT_POLICY
    if policy_file is not None:
        read_policy(policy_file)  # find mistakes here, not in the cluster
        policy = read_text(policy_file)
    if part == "fleet" and (crds_only or policy_file or default_for_label or web):
        raise InputError("install fleet does not accept --crds-only, --policy, --web or --default-for-label")
    if not web and (allow_actions or web_tls_secret):
        flag = "--allow-actions" if allow_actions else "--web-tls-secret"
        raise InputError(f"{flag} configures the page and requires --web")
    if web_tls_secret:
        _check_names("--web-tls-secret", [web_tls_secret])
    options = InstallOptions(
        part=part,
        name="fairway" if part == "scheduler" else "fairway-fleet",
        namespace=namespace,
        replicas=replicas,
        scheduler_names=names,
        volcano_crds=volcano_crds,
        crds_only=crds_only,
        admission=admission,
        service_monitor=service_monitor,
        agent=agent,
        agent_publish=agent_publish,
        web=web,
        web_tls_secret=web_tls_secret,
        allow_actions=allow_actions,
        default_for_label=default_for_label,
        policy=policy,
        **({"image": image} if image else {}),
    )
    if output == "yaml":
        texts = {"fairway.yaml": stream(options)}
    elif output == "json":
        texts = {"fairway.json": json_list(options)}
    elif out is None:
        raise InputError(f"-o {output} writes several files and requires --out DIR")
    else:
        texts = helm_chart(options) if output == "helm" else kustomize_base(options)
    if out is None:
        echo("".join(texts.values()), nl=False)
    else:
        _write(out, texts)


def _check_names(flag: str, names: list[str] | tuple[str, ...]) -> None:
    from fairway.api.validation.labels import LABEL_EXPECTED, SUBDOMAIN_EXPECTED, is_dns_label, is_dns_subdomain
    from fairway.errors import InputError

    for name in names:
        if flag == "--namespace" and not is_dns_label(name):
            raise InputError(f"{flag}: is {name!r}, expected {LABEL_EXPECTED}")
        if not is_dns_subdomain(name):
            raise InputError(f"{flag}: is {name!r}, expected {SUBDOMAIN_EXPECTED}")


def _write(out: str, texts: dict[str, str]) -> None:
    from fairway.cli.inputs import folder_to_write

    folder = folder_to_write(out)
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    echo(f"Wrote {len(texts)} files to {folder}.", err=True)
