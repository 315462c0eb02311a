"""The custom resources of Fairway, and those of Volcano in schemas of our own.

OpenAPI schemas are derived from the structs that read the objects, so that the two cannot drift apart: the server
refuses what the scheduler could not read, a wrong type, a number out of range, a missing field. What a struct cannot
express (rules over several fields, descriptions, list keys) is added by path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from fairway.api.devices import ResourceClass
from fairway.api.scheduling import MAX_PLACES, MAX_VICTIMS, EvictionRecord, PodGroup, Queue, Reservation
from fairway.kube.install import texts

# -- schemas from structs ----------------------------------------------------------------------------------------------


Schema = dict[str, Any]

QUANTITY = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([kMGTPEnum]|[KMGTPE]i|[eE][+-]?([0-9]+[.]?[0-9]*|[.][0-9]+))?$"
MAX_NAME = 253
MAX_AMOUNTS = 64
"""Resources in one list of amounts: a bound from which the server estimates the cost of CEL rules."""
_INT32 = (-(2**31), 2**31 - 1)


def struct_schema(struct: type[msgspec.Struct]) -> Schema:
    return _object(inspect.type_info(struct))


def _object(kind: inspect.Type) -> Schema:
    assert isinstance(kind, inspect.StructType)
    schema: Schema = {"type": "object", "properties": {one.encode_name: _schema(one.type) for one in kind.fields}}
    required = [one.encode_name for one in kind.fields if one.required]
    return {**schema, "required": required} if required else schema


def _schema(kind: inspect.Type) -> Schema:
    match kind:
        case inspect.Metadata(inner, extra_json_schema=_, extra=extra):
            return (
                quantity() if (extra or {}).get("scalars") == "quantity" and _is_text(inner) else _amounts(inner, extra)
            )
        case inspect.StructType():
            return _object(kind)
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.IntType():
            return _integer(kind)
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.LiteralType(values):
            return {"type": "string", "enum": [value for value in values if value != ""]}
        case inspect.VarTupleType(item) | inspect.ListType(item):
            return {"type": "array", "items": _schema(item)}
        case inspect.DictType(_, value):
            return {"type": "object", "additionalProperties": _schema(value)}
        case inspect.UnionType(types):
            return _union([one for one in types if not isinstance(one, inspect.NoneType)])
        case _:
            raise TypeError(f"no schema for {kind}")


def _union(types: list[inspect.Type]) -> Schema:
    if len(types) == 1:
        return _schema(types[0])
    if all(isinstance(one, inspect.IntType | inspect.FloatType) for one in types):
        return {"type": "number"}
    raise TypeError(f"no schema for one of {types}")


def _integer(kind: inspect.IntType) -> Schema:
    schema: Schema = {"type": "integer"}
    minimum, maximum = kind.ge, kind.le
    if minimum is not None and maximum is not None and minimum >= _INT32[0] and maximum <= _INT32[1]:
        schema["format"] = "int32"
    else:
        schema["format"] = "int64"
    if minimum is not None and minimum > _INT32[0]:
        schema["minimum"] = minimum
    return schema


def _is_text(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.StrType)


def _amounts(kind: inspect.Type, extra: Mapping[str, Any] | None) -> Schema:
    if extra and extra.get("scalars") == "quantity" and isinstance(kind, inspect.DictType):
        return {"type": "object", "additionalProperties": quantity(), "maxProperties": MAX_AMOUNTS}
    return _schema(kind)


def quantity() -> Schema:
    """A quantity as Kubernetes accepts it: a text, or a whole number."""
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": QUANTITY,
        "maxLength": 32,
    }


def at(schema: Schema, path: str) -> Schema:
    """The part of a schema at a path: field names with dots, `[]` for the entries of a list."""
    for part in path.split(".") if path else ():
        name, _, rest = part.partition("[")
        schema = schema["properties"][name]
        if rest:
            schema = schema["items"]
    return schema


def rule(expression: str, message: str, **more: Any) -> Schema:
    return {"rule": expression, "message": message, **more}


def add_rules(schema: Schema, path: str, *rules: Schema) -> None:
    at(schema, path).setdefault("x-kubernetes-validations", []).extend(rules)


def describe(schema: Schema, texts: Mapping[str, str]) -> None:
    """Descriptions by path, for `kubectl explain`."""
    for path, text in texts.items():
        at(schema, path)["description"] = text


def bound_texts(schema: Schema) -> None:
    """Bound every text that has no bound: names are short, and the cost of rules must be finite."""
    if schema.get("type") == "string" and not {"enum", "maxLength", "format"} & schema.keys():
        schema["maxLength"] = MAX_NAME
    for part in schema.get("properties", {}).values():
        bound_texts(part)
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            bound_texts(schema[name])


# -- custom resources --------------------------------------------------------------------------------------------------


Manifest = dict[str, Any]

KEEP = {"helm.sh/resource-policy": "keep"}
"""Custom resources are deleted with their definition: an uninstall must not delete the users' objects."""


class PrinterColumn(NamedTuple):
    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown with `-o wide` only."""


class CustomKind(NamedTuple):
    group: str
    version: str
    kind: str
    plural: str
    short: tuple[str, ...]
    namespaced: bool
    has_status: bool
    """Whether status is a subresource: written on its own, and not with the right to write the rest."""
    columns: tuple[PrinterColumn, ...]
    schema: Schema


AGE = PrinterColumn("Age", ".metadata.creationTimestamp", "date")


def fairway_crds() -> list[Manifest]:
    return [_crd(kind) for kind in (_resource_class(), _reservation(), _eviction_record())]


def volcano_crds() -> list[Manifest]:
    return [_crd(kind) for kind in (_queue(), _pod_group())]


def _crd(kind: CustomKind) -> Manifest:
    schema = {"type": "object", **kind.schema}
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        **{name: part for name, part in kind.schema["properties"].items() if name in ("spec", "status")},
    }
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [_column(column) for column in (*kind.columns, AGE)],
        **({"subresources": {"status": {}}} if kind.has_status else {}),
    }
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "shortNames": list(kind.short),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "annotations": dict(KEEP)},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [version],
        },
    }


def _column(column: PrinterColumn) -> Manifest:
    found: Manifest = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**found, "priority": 1} if column.wide else found


# -- fairway.dev -------------------------------------------------------------------------------------------------


def _resource_class() -> CustomKind:
    schema = struct_schema(ResourceClass)
    schema["required"] = ["spec"]
    _selector_lists(schema, "spec.resourceSelector[].matchExpressions")
    at(schema, "spec.resourceSelector").update(maxItems=32)
    _keyed(at(schema, "spec.includes"), "class", 16)
    at(schema, "spec.strategy").update(maxItems=5)
    _label_selector(schema, "spec.allowedNamespaces")
    add_rules(schema, "spec", rule("self == oldSelf", "a class is not changed: create one of another name"))
    others = "!has(self.spec.includes) || self.spec.includes.all(m, m.class != self.metadata.name)"
    add_rules(schema, "", rule(others, "spec.includes names the class itself, expected another class"))
    add_rules(
        schema,
        "spec.resourceSelector[].matchExpressions[]",
        *_value_counts("['Eq', 'Gt', 'GtEq', 'Lt', 'LtEq']"),
    )
    describe(schema, texts.RESOURCE_CLASS)
    bound_texts(schema)
    columns = (
        PrinterColumn("Allocatable", ".status.allocatable", "number"),
        PrinterColumn("Requested", ".status.requested", "number"),
        PrinterColumn("Selector", ".status.selector"),
    )
    return CustomKind(
        "fairway.dev",
        "v1alpha1",
        "ResourceClass",
        "resourceclasses",
        ("resclass", "rclass"),
        False,
        True,
        columns,
        schema,
    )


def _reservation() -> CustomKind:
    schema = struct_schema(Reservation)
    for path in ("spec.places", "status.places"):
        _keyed(at(schema, path), "pod", MAX_PLACES)
        at(schema, f"{path}[].pod")["minLength"] = 1
        at(schema, f"{path}[].node")["minLength"] = 1
    at(schema, "spec.jobRef.name")["minLength"] = 1
    at(schema, "spec.jobRef.uid").update(minLength=1, maxLength=128)
    at(schema, "spec.jobRef")["required"] = ["kind", "name", "uid"]
    named = "self.spec.jobRef.kind != 'Pod' || self.metadata.name.startsWith('pod-')"
    add_rules(schema, "", rule(named, "the Reservation of a lone pod is named pod-<name of the pod>"))
    describe(schema, texts.RESERVATION)
    bound_texts(schema)
    columns = (
        PrinterColumn("Kind", ".spec.jobRef.kind"),
        PrinterColumn("Job", ".spec.jobRef.name"),
        PrinterColumn("Planned-start", ".spec.plannedStart", "date", wide=True),
        PrinterColumn("Backfill-start", ".status.plannedStart", "date", wide=True),
        PrinterColumn("Hard", ".spec.hard", "boolean", wide=True),
    )
    return CustomKind("fairway.dev", "v1alpha1", "Reservation", "reservations", ("rsv",), True, False, columns, schema)


def _eviction_record() -> CustomKind:
    schema = struct_schema(EvictionRecord)
    at(schema, "status.victims")["maxItems"] = MAX_VICTIMS
    at(schema, "spec.jobRef.name")["minLength"] = 1
    at(schema, "spec.jobRef.uid").update(minLength=1, maxLength=128)
    at(schema, "spec.jobRef")["required"] = ["kind", "name", "uid"]
    describe(schema, texts.EVICTION_RECORD)
    bound_texts(schema)
    columns = (
        PrinterColumn("Kind", ".spec.jobRef.kind"),
        PrinterColumn("Job", ".spec.jobRef.name"),
        PrinterColumn("Stops", ".status.stops", "integer"),
        PrinterColumn("Stopped", ".status.stoppedAt", "date"),
        PrinterColumn("Restarted", ".status.restartedAt", "date"),
    )
    names = ("EvictionRecord", "evictionrecords", ("evr",))
    return CustomKind("fairway.dev", "v1alpha1", *names, True, False, columns, schema)


# -- scheduling.volcano.sh ---------------------------------------------------------------------------------------


def _queue() -> CustomKind:
    schema = struct_schema(Queue)
    spec = at(schema, "spec")
    spec["properties"]["weight"]["default"] = 1
    _open(schema)
    for field in ("capability", "deserved", "guarantee.resource"):
        add_rules(schema, f"spec.{field}", _not_negative())
    for field, has in (
        ("deserved", "has(self.deserved)"),
        ("guarantee.resource", "has(self.guarantee) && has(self.guarantee.resource)"),
    ):
        within = (
            f"!has(self.capability) || !({has}) || self.{field}.all(k, !(k in self.capability) || "
            f"quantity(string(self.{field}[k])).compareTo(quantity(string(self.capability[k]))) <= 0)"
        )
        add_rules(schema, "spec", rule(within, f"{field} is above capability, expected at most that"))
    own = "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name"
    add_rules(schema, "", rule(own, "spec.parent is the queue itself, expected another queue"))
    at(schema, "spec.parent")["pattern"] = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"
    _label_selector(schema, "spec.allowedNamespaces")
    counts = ("pending", "inqueue", "running", "unknown", "completed")
    at(schema, "status")["properties"].update({name: {"type": "integer", "format": "int32"} for name in counts})
    at(schema, "status")["properties"]["allocated"] = dict(at(schema, "spec.deserved"))
    at(schema, "status.allocated").pop("x-kubernetes-validations")
    describe(schema, texts.QUEUE)
    bound_texts(schema)
    columns = (
        PrinterColumn("Weight", ".spec.weight", "integer"),
        PrinterColumn("State", ".status.state"),
        PrinterColumn("Parent", ".spec.parent"),
        PrinterColumn("Pending", ".status.pending", "integer"),
        PrinterColumn("Inqueue", ".status.inqueue", "integer"),
        PrinterColumn("Running", ".status.running", "integer"),
        PrinterColumn("CPU", ".status.allocated.cpu", wide=True),
        PrinterColumn("Memory", ".status.allocated.memory", wide=True),
    )
    return CustomKind(
        "scheduling.volcano.sh", "v1beta1", "Queue", "queues", ("q", "queue-v1beta1"), False, True, columns, schema
    )


_OF_OTHER_APIS = ("priority", "topology", "evictWhole")
"""Fields of the struct that PodGroups of other APIs are read into."""


def _pod_group() -> CustomKind:
    schema = struct_schema(PodGroup)
    for name in _OF_OTHER_APIS:
        del at(schema, "spec")["properties"][name]
    at(schema, "spec.networkTopology")["x-kubernetes-preserve-unknown-fields"] = True
    at(schema, "spec.subGroupPolicy[]")["x-kubernetes-preserve-unknown-fields"] = True
    at(schema, "spec.subGroupPolicy[].networkTopology")["x-kubernetes-preserve-unknown-fields"] = True
    at(schema, "status.conditions[]")["x-kubernetes-preserve-unknown-fields"] = True
    at(schema, "spec.minTaskMember").update(maxProperties=256)
    _open(schema)
    add_rules(schema, "spec.minResources", _not_negative())
    describe(schema, texts.POD_GROUP)
    bound_texts(schema)
    del at(schema, "status.conditions[].message")["maxLength"]
    columns = (
        PrinterColumn("Status", ".status.phase"),
        PrinterColumn("minMember", ".spec.minMember", "integer"),
        PrinterColumn("Running", ".status.running", "integer"),
        PrinterColumn("Queue", ".spec.queue"),
        PrinterColumn("Reason", ".status.conditions[?(@.type=='Unschedulable')].reason", wide=True),
    )
    return CustomKind(
        "scheduling.volcano.sh",
        "v1beta1",
        "PodGroup",
        "podgroups",
        ("pg", "podgroup-v1beta1"),
        True,
        True,
        columns,
        schema,
    )


# -- parts -------------------------------------------------------------------------------------------------------


def _open(schema: Schema) -> None:
    """Fields that Volcano has and Fairway does not read are kept as they are."""
    for part in ("spec", "status"):
        at(schema, part)["x-kubernetes-preserve-unknown-fields"] = True


def _keyed(schema: Schema, key: str, most: int) -> None:
    """A list whose entries have different keys: the server refuses a second one."""
    schema.update({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key], "maxItems": most})


def _not_negative() -> Schema:
    expression = "self.all(k, quantity(string(self[k])).compareTo(quantity('0')) >= 0)"
    return rule(expression, "an amount is negative, expected amounts of at least 0")


def _label_selector(schema: Schema, path: str) -> None:
    _selector_lists(schema, f"{path}.matchExpressions")
    at(schema, f"{path}.matchLabels")["maxProperties"] = 32
    add_rules(schema, f"{path}.matchExpressions[]", *_value_counts())


def _selector_lists(schema: Schema, path: str) -> None:
    at(schema, path)["maxItems"] = 32
    at(schema, f"{path}[].key")["minLength"] = 1
    at(schema, f"{path}[].values")["maxItems"] = 256


def _value_counts(single: str = "") -> Sequence[Schema]:
    count = "(has(self.values) ? size(self.values) : 0)"
    rules = [
        rule(f"!(self.operator in ['In', 'NotIn']) || {count} > 0", "values is empty, expected some for In and NotIn"),
        rule(
            f"!(self.operator in ['Exists', 'DoesNotExist']) || {count} == 0",
            "values is not empty, expected none for Exists and DoesNotExist",
        ),
    ]
    if single:
        text = "values has none or several, expected exactly one for Eq, Gt, GtEq, Lt and LtEq"
        rules.append(rule(f"!(self.operator in {single}) || {count} == 1", text))
    return rules


def kinds_of(crds: Iterable[Manifest]) -> set[str]:
    return {crd["spec"]["names"]["kind"] for crd in crds}
