"""The protocols: generated files are those of the `.proto` files, and bytes are those that other programs read."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from tools.protocol import PROTOCOL, SOURCE, write

from fairway.agent.protocol import device_plugin_pb2 as plugin
from fairway.agent.protocol import dra_pb2 as dra
from fairway.agent.protocol import plugin_registration_pb2 as registration
from fairway.agent.protocol.rpc import DEVICE_PLUGIN, DRA_PLUGIN, DRIVER_REGISTRATION, PLUGIN_REGISTRATION


def test_the_generated_files_are_up_to_date(tmp_path):
    """`make protocol` writes them again, also when the compiler in locks/development.lock is another one."""
    written = write(tmp_path)
    assert [path.name for path in written] == sorted(path.name for path in (SOURCE / PROTOCOL).glob("*_pb2.py*"))
    for path in written:
        assert path.read_text() == (SOURCE / PROTOCOL / path.name).read_text(), version("grpcio-tools")


@pytest.mark.parametrize(
    ("service", "name", "methods"),
    [
        (PLUGIN_REGISTRATION, "v1beta1.Registration", "Register"),
        (
            DEVICE_PLUGIN,
            "v1beta1.DevicePlugin",
            "GetDevicePluginOptions ListAndWatch GetPreferredAllocation Allocate PreStartContainer",
        ),
        (DRA_PLUGIN, "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", "NodePrepareResources NodeUnprepareResources"),
        (DRIVER_REGISTRATION, "pluginregistration.Registration", "GetInfo NotifyRegistrationStatus"),
    ],
)
def test_services_have_the_names_that_others_call(service, name, methods):
    assert service.full_name == name
    assert [method.name for method in service.methods] == methods.split()


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (
            plugin.RegisterRequest(version="v", endpoint="e", resource_name="r", options={"pre_start_required": True}),
            b"\x0a\x01v\x12\x01e\x1a\x01r\x22\x02\x08\x01",
        ),
        (
            plugin.Device(ID="i", health="h", topology={"nodes": [{"ID": 1}]}),
            b"\x0a\x01i\x12\x01h\x1a\x04\x0a\x02\x08\x01",
        ),
        (
            plugin.ContainerAllocateResponse(
                envs={"a": "b"},
                mounts=[{"container_path": "c", "host_path": "h", "read_only": True}],
                devices=[{"container_path": "c", "host_path": "h", "permissions": "r"}],
                annotations={"x": "y"},
                cdi_devices=[{"name": "n"}],
            ),
            b"\x0a\x06\x0a\x01a\x12\x01b\x12\x08\x0a\x01c\x12\x01h\x18\x01\x1a\x09\x0a\x01c\x12\x01h\x1a\x01r"
            b"\x22\x06\x0a\x01x\x12\x01y\x2a\x03\x0a\x01n",
        ),
        (dra.Claim(namespace="n", uid="u", name="m"), b"\x0a\x01n\x12\x01u\x1a\x01m"),
        (
            dra.Device(request_names=["r"], pool_name="p", device_name="d", cdi_device_ids=["c"], share_id="s"),
            b"\x0a\x01r\x12\x01p\x1a\x01d\x22\x01c\x2a\x01s",
        ),
        (
            registration.PluginInfo(type="t", name="n", endpoint="e", supported_versions=["v"]),
            b"\x0a\x01t\x12\x01n\x1a\x01e\x22\x01v",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_messages_have_the_numbers_of_the_protocol(message, data):
    assert message.SerializeToString(deterministic=True) == data
