"""What files may leave out, and what must not be in them: bare class names, classes that could not be created."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from fairway.api.core import Node
from fairway.api.devices import ResourceClass
from fairway.api.kinds import ApiObject, ObjectKey, key
from fairway.api.manifests import Manifests
from fairway.api.pods import Container, Pod
from fairway.api.scheduling import PodGroup, Queue
from fairway.devices.model.pools import is_plain_resource
from fairway.devices.select.classes import ClassTable
from fairway.errors import Problem
from fairway.state.device_requests import CLASS_PREFIX

_T = TypeVar("_T", bound=msgspec.Struct)
_STEP = re.compile(r"(\w+)|\[(\d+)\]")


def reject_bad_classes(manifests: Manifests) -> Manifests:
    """The manifests without classes that an API server would refuse, each reported with its place."""
    classes = [obj for obj in manifests.objects if isinstance(obj, ResourceClass)]
    table = ClassTable(classes)
    problems: dict[ObjectKey, list[Problem]] = {}
    for resource_class in classes:
        compiled = table.get(resource_class.metadata.name)
        for problem in compiled.problems if compiled else ():
            path, _, message = problem.partition(": ")
            steps = tuple(name or int(index) for name, index in _STEP.findall(path))
            problems.setdefault(key(resource_class), []).append(manifests.problem(resource_class, steps, message))
    return manifests.reject(problems)


def with_full_class_names(objects: list[ApiObject]) -> list[ApiObject]:
    """The objects, with bare class names in requests replaced by full ones.

    A bare name means a class if one of that name exists; or, if there are classes, if no node has a resource of that
    name, so that a missing class is reported as missing.
    """
    classes = {obj.metadata.name for obj in objects if isinstance(obj, ResourceClass)}
    if not classes:
        return objects
    resources = {name for obj in objects if isinstance(obj, Node) for name in obj.allocatable}
    names = _Names(classes, resources)
    return [names.in_object(obj) for obj in objects]


class _Names:
    def __init__(self, classes: set[str], resources: set[str]) -> None:
        self._classes = classes
        self._resources = resources

    def in_object(self, obj: ApiObject) -> ApiObject:
        match obj:
            case Pod(spec=spec):
                changed = {
                    field: containers
                    for field in ("containers", "init_containers")
                    if (containers := self._in_containers(getattr(spec, field))) is not getattr(spec, field)
                }
                return _replaced(obj, spec=_replaced(spec, **changed)) if changed else obj
            case Queue(spec=spec):
                guarantee = _replaced(spec.guarantee, resource=self._full(spec.guarantee.resource))
                amounts = {name: self._full(getattr(spec, name)) for name in ("capability", "deserved")}
                return _replaced(obj, spec=_replaced(spec, guarantee=guarantee, **amounts))
            case PodGroup(spec=spec):
                return _replaced(obj, spec=_replaced(spec, min_resources=self._full(spec.min_resources)))
        return obj

    def _in_containers(self, containers: tuple[Container, ...]) -> tuple[Container, ...]:
        if not any(self._is_class(name) for container in containers for name in _asked(container)):
            return containers
        return tuple(
            _replaced(
                container,
                resources=_replaced(
                    container.resources,
                    limits=self._full(container.resources.limits),
                    requests=self._full(container.resources.requests),
                ),
            )
            for container in containers
        )

    def _full(self, amounts: Mapping[str, str]) -> dict[str, str]:
        return {CLASS_PREFIX + name if self._is_class(name) else name: text for name, text in amounts.items()}

    def _is_class(self, name: str) -> bool:
        if name in self._classes:
            return True
        return "/" not in name and is_plain_resource(name) and name not in self._resources


def _asked(container: Container) -> Iterable[str]:
    return (*container.resources.limits, *container.resources.requests)


def _replaced(obj: _T, **changes: Any) -> _T:
    return msgspec.structs.replace(obj, **changes) if changes else obj
