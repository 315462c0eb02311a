"""What `/metrics` of the agent shows."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class AgentMetrics:
    """One of each process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.devices = Gauge(
            "fairway_agent_devices", "Devices, by resource and health.", ["resource", "health"], registry=registry
        )
        self.plugins = Gauge("fairway_agent_plugins", "Plugins that are connected.", registry=registry)
        self.prepared = Gauge("fairway_agent_prepared_claims", "Claims that are prepared.", registry=registry)
        self.lost = Gauge(
            "fairway_agent_unhealthy_devices_in_use",
            "Devices of prepared claims that are unhealthy.",
            registry=registry,
        )
        self.registered = Gauge("fairway_agent_registered", "1 if the kubelet has the driver.", registry=registry)
        self.calls = Counter(
            "fairway_agent_claims", "Claims in calls of the kubelet, by call and result.", ["call", "result"],
            registry=registry,
        )  # fmt: skip
        self.writes = Counter("fairway_agent_published", "Requests that wrote what there is.", registry=registry)
        self.failures = Counter("fairway_agent_publish_failures", "Times that publishing failed.", registry=registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
