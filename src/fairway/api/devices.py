"""Devices: what drivers publish and pods claim (`resource.k8s.io`), and ResourceClass, a portable name for every device
that can do something (spec D11 to D15).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from fairway.api.meta import (
    Amounts,
    ApiStruct,
    Condition,
    Int64,
    LabelSelector,
    ObjectMeta,
    Positive,
    QuantityText,
    Time,
)
from fairway.api.pods import NodeSelector

DeviceStrategy = Literal["first-fit", "least-loss", "pack", "spread", "numa"]
ClassOperator = Literal["In", "NotIn", "Eq", "Gt", "GtEq", "Lt", "LtEq", "Exists", "DoesNotExist"]


SIGNS: dict[ClassOperator, str] = {"Eq": "=", "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<="}
MAX_SUMMARY = 100
"""Maximum characters of a summary, which is a column of a table."""


class ClassRequirement(ApiStruct, frozen=True):
    key: str
    operator: ClassOperator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As `kubectl` writes selectors of labels."""
        match self.operator:
            case "Exists":
                return self.key
            case "DoesNotExist":
                return f"!{self.key}"
            case "In" | "NotIn" if len(self.values) == 1:
                return f"{self.key}{'=' if self.operator == 'In' else '!='}{self.values[0]}"
            case "In" | "NotIn":
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
        return f"{self.key}{SIGNS[self.operator]}{self.values[0] if self.values else ''}"


class ClassSelector(ApiStruct, frozen=True):
    """All expressions must match the device; a selector without any matches nothing."""

    match_expressions: tuple[ClassRequirement, ...] = ()


class ClassMember(ApiStruct, frozen=True):
    """A unit of the class is a group that comprises `count` devices of another class."""

    class_name: str = msgspec.field(name="class")
    count: Positive = 1


class ResourceClassSpec(ApiStruct, frozen=True):
    """One of the selectors must match. Without `allowed_namespaces` every namespace may request the class.

    `strategy` is how devices are chosen for requests of this class; it takes precedence over the policy's.
    """

    resource_selector: tuple[ClassSelector, ...] = ()
    includes: tuple[ClassMember, ...] = ()
    allowed_namespaces: LabelSelector | None = None
    strategy: tuple[DeviceStrategy, ...] = ()

    def summary(self) -> str:
        """The devices that it selects, in one line: `Kind=gpu,memory>=60Gi or pair`."""
        terms = [",".join(map(str, term.match_expressions)) for term in self.resource_selector]
        members = " + ".join(f"{one.count} {one.class_name}" for one in self.includes)
        text = " or ".join(filter(None, terms)) + (f" [{members}]" if members else "")
        text = "".join(one if one.isprintable() else "?" for one in text.strip())
        return text if len(text) <= MAX_SUMMARY else text[: MAX_SUMMARY - 3] + "..."


class ResourceClassStatus(ApiStruct, frozen=True):
    """Units that the class can select, and how many of them are in use; only Fairway writes it."""

    allocatable: int | float
    requested: int | float
    selector: str = ""
    """A summary of the spec, for tables."""


class ResourceClass(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceClassSpec = msgspec.field(default_factory=ResourceClassSpec)
    status: ResourceClassStatus | None = None


AllocationMode = Literal["", "ExactCount", "All"]

MAX_USERS = 256
"""Pods that one claim can be reserved for."""


class DeviceAttribute(ApiStruct, frozen=True):
    """Exactly one is set; the plural ones are lists."""

    int_value: Int64 | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    string_value: str | None = msgspec.field(default=None, name="string")
    version_value: str | None = msgspec.field(default=None, name="version")
    int_values: tuple[Int64, ...] = msgspec.field(default=(), name="ints")
    bool_values: tuple[bool, ...] = msgspec.field(default=(), name="bools")
    string_values: tuple[str, ...] = msgspec.field(default=(), name="strings")
    version_values: tuple[str, ...] = msgspec.field(default=(), name="versions")


class CapacityRange(ApiStruct, frozen=True):
    min: QuantityText | None = None
    max: QuantityText | None = None
    step: QuantityText | None = None


class CapacityRequestPolicy(ApiStruct, frozen=True):
    """How a shared device's capacity may be divided: one of the values, or steps in a range."""

    default: QuantityText | None = None
    valid_values: tuple[QuantityText, ...] = ()
    valid_range: CapacityRange | None = None

    def texts(self) -> dict[tuple[str | int, ...], str]:
        """All quantities, by the paths of their fields."""
        found: dict[tuple[str | int, ...], str | None] = {("default",): self.default}
        found |= {("validValues", index): text for index, text in enumerate(self.valid_values)}
        if self.valid_range is not None:
            found |= {("validRange", name): getattr(self.valid_range, name) for name in ("min", "max", "step")}
        return {path: text for path, text in found.items() if text is not None}


class DeviceCapacity(ApiStruct, frozen=True):
    value: QuantityText
    request_policy: CapacityRequestPolicy | None = None


class Counter(ApiStruct, frozen=True):
    value: QuantityText


class CounterSet(ApiStruct, frozen=True):
    name: str
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)


class CounterConsumption(ApiStruct, frozen=True):
    """Devices that take from the same counter set at the same time must share a compatibility group, or all
    have none.
    """

    counter_set: str
    counters: dict[str, Counter] = msgspec.field(default_factory=dict)
    compatibility_groups: tuple[str, ...] = ()


class DeviceTaint(ApiStruct, frozen=True):
    """Effects other than NoSchedule and NoExecute are informational."""

    key: str
    effect: str
    value: str = ""
    time_added: Time | None = None


class Device(ApiStruct, frozen=True):
    name: str
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    allow_multiple_allocations: bool = False
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class ResourcePool(ApiStruct, frozen=True):
    name: str
    generation: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] = 0
    resource_slice_count: Positive = 1


class ResourceSliceSpec(ApiStruct, frozen=True):
    """Exactly one of the four node fields says where the devices are reachable."""

    driver: str
    pool: ResourcePool
    node_name: str = ""
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[Device, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(ApiStruct, frozen=True):
    spec: ResourceSliceSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class DeviceTaintSelector(ApiStruct, frozen=True):
    """A field that is not set matches any value."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(ApiStruct, frozen=True):
    """Without a selector the rule applies to no device, with an empty one to every device."""

    taint: DeviceTaint
    device_selector: DeviceTaintSelector | None = None


class DeviceTaintRule(ApiStruct, frozen=True):
    spec: DeviceTaintRuleSpec
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class CelSelector(ApiStruct, frozen=True):
    expression: str


class DeviceSelector(ApiStruct, frozen=True):
    cel: CelSelector | None = None


class DeviceToleration(ApiStruct, frozen=True):
    key: str = ""
    operator: Literal["", "Equal", "Exists"] = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequests(ApiStruct, frozen=True):
    requests: Amounts = msgspec.field(default_factory=dict)


class DeviceSubRequest(ApiStruct, frozen=True):
    """One of the alternatives of `firstAvailable`, in order of preference."""

    name: str
    device_class_name: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: AllocationMode = ""
    count: Positive | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequests | None = None


class ExactDeviceRequest(ApiStruct, frozen=True):
    """No mode is ExactCount, no count is 1."""

    device_class_name: str
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: AllocationMode = ""
    count: Positive | None = None
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequests | None = None


class DeviceRequest(ApiStruct, frozen=True):
    name: str
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(ApiStruct, frozen=True):
    """Over the named requests, or all of them: one value of an attribute for all, or a different one for each."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class OpaqueConfiguration(ApiStruct, frozen=True):
    driver: str
    parameters: Any = None


class DeviceConfiguration(ApiStruct, frozen=True):
    """Copied into the allocation for drivers; Fairway does not read it."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None
    source: str = ""


class DeviceClaim(ApiStruct, frozen=True):
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()


class ResourceClaimSpec(ApiStruct, frozen=True):
    devices: DeviceClaim = msgspec.field(default_factory=DeviceClaim)


class DeviceResult(ApiStruct, frozen=True):
    """One chosen device; `share_id` and `consumed_capacity` are set for a shared one. The pod is bound once its driver
    has set all `binding_conditions`; a binding failure condition means that the device is not available.
    """

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Amounts = msgspec.field(default_factory=dict)
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()


class AllocatedDevices(ApiStruct, frozen=True):
    results: tuple[DeviceResult, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()


class Allocation(ApiStruct, frozen=True):
    devices: AllocatedDevices = msgspec.field(default_factory=AllocatedDevices)
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ClaimConsumer(ApiStruct, frozen=True):
    resource: str
    name: str
    uid: str = ""
    api_group: str = ""


class AllocatedDeviceStatus(ApiStruct, frozen=True):
    """What the driver of an allocated device reports about it."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()


class ResourceClaimStatus(ApiStruct, frozen=True):
    """Only drivers write `devices`."""

    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    """At most `MAX_USERS`, a limit of the API."""
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ResourceClaim(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)
    status: ResourceClaimStatus = msgspec.field(default_factory=ResourceClaimStatus)


class ResourceClaimTemplateSpec(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceClaimSpec = msgspec.field(default_factory=ResourceClaimSpec)


class ResourceClaimTemplate(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: ResourceClaimTemplateSpec = msgspec.field(default_factory=ResourceClaimTemplateSpec)


class DeviceClassSpec(ApiStruct, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(ApiStruct, frozen=True):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: DeviceClassSpec = msgspec.field(default_factory=DeviceClassSpec)
