"""What a pod asks of a node, as Kubernetes adds it up.

Init containers run one after the other before the others, so only the largest counts, except those that
restart always (sidecars): they keep running and add to whatever runs after them. A limit without a request is
a request. Resources given for the pod as a whole replace what its containers add up to; overhead comes on
top.

Pods come in few shapes and many copies, so the sum is made once per distinct set of texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from fairway.api.pods import Container, ContainerStatus, Pod, PodSpec, ResourceRequirements
from fairway.resources.algebra import Resource
from fairway.resources.quantity import parse_amount

_Texts = tuple[tuple[str, str], ...]
_Requested = tuple[_Texts, _Texts]
"""Requests and limits."""

_NOTHING: _Requested = ((), ())


def pod_request(spec: PodSpec) -> Resource:
    """The amounts the pod needs on its node; the slot it takes (`pods`) is not among them."""
    resources = spec.resources
    return _pod_request(
        tuple([_requested(container.resources) for container in spec.containers]),
        tuple([(container.is_sidecar, _requested(container.resources)) for container in spec.init_containers]),
        _NOTHING if resources is None else _requested(resources),
        tuple(spec.overhead.items()),
    )


def occupied(pod: Pod) -> PodSpec:
    """The spec with the larger of what each container asks for and what it has been given.

    A pod that is being resized in place takes what it had until it is smaller, and what it asks for from the start.
    """
    status = pod.status
    if not pod.spec.node_name or not (status.container_statuses or status.init_container_statuses):
        return pod.spec
    containers = _grown(pod.spec.containers, status.container_statuses)
    init_containers = _grown(pod.spec.init_containers, status.init_container_statuses)
    if containers is pod.spec.containers and init_containers is pod.spec.init_containers:
        return pod.spec
    return replace(pod.spec, containers=containers, init_containers=init_containers)


def _grown(containers: tuple[Container, ...], statuses: Sequence[ContainerStatus]) -> tuple[Container, ...]:
    given = {status.name: status for status in statuses}
    grown = tuple([_larger(container, given.get(container.name)) for container in containers])
    return containers if all(new is old for new, old in zip(grown, containers, strict=True)) else grown


def _larger(container: Container, status: ContainerStatus | None) -> Container:
    if status is None:
        return container
    requested = {**container.resources.limits, **container.resources.requests}
    more: dict[str, str] = {}
    actual = {} if status.resources is None else status.resources.requests
    for amounts in (status.allocated_resources, actual):
        for name, text in amounts.items():
            known = more.get(name, requested.get(name))
            if known != text and (known is None or parse_amount(name, text) > parse_amount(name, known)):
                more[name] = text
    if not more:
        return container
    resources = replace(container.resources, requests={**container.resources.requests, **more})
    return replace(container, resources=resources)


def container_request(container: Container) -> Resource:
    """What one container asks for, its limits counted where it gives no request."""
    return _container_request(_requested(container.resources))


def _requested(resources: ResourceRequirements) -> _Requested:
    return tuple(resources.requests.items()), tuple(resources.limits.items())


@lru_cache(maxsize=16384)
def _container_request(requested: _Requested) -> Resource:
    requests, limits = requested
    return Resource.parse({**dict(limits), **dict(requests)})


@lru_cache(maxsize=16384)
def _pod_request(
    containers: tuple[_Requested, ...],
    init_containers: tuple[tuple[bool, _Requested], ...],
    whole: _Requested,
    overhead: _Texts,
) -> Resource:
    running = Resource.sum(_container_request(requested) for requested in containers)
    sidecars = Resource.EMPTY
    starting = Resource.EMPTY
    for is_sidecar, requested in init_containers:
        request = _container_request(requested)
        starting = starting.maximum(sidecars + request)
        if is_sidecar:
            sidecars = sidecars + request
    total = starting.maximum(running + sidecars)
    total = _replaced(total, whole) + Resource.parse(dict(overhead))
    return Resource.of({name: amount for name, amount in total.amounts.items() if name != "pods"})


def _replaced(total: Resource, whole: _Requested) -> Resource:
    """Pod-level requests win; a pod-level limit is a request only for what no container asks for."""
    requests, limits = (_pod_level(texts) for texts in whole)
    return Resource.of({**limits, **total.amounts, **requests})


def _pod_level(texts: _Texts) -> Mapping[str, int]:
    """Only cpu, memory and huge pages can be given for a pod as a whole."""
    given = {name: text for name, text in texts if name in ("cpu", "memory") or name.startswith("hugepages-")}
    return Resource.parse(given).amounts
