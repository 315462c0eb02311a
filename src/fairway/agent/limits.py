"""How much any other program on the node may send, and how long it may take."""

from __future__ import annotations

MAX_MESSAGE = 16 << 20
"""Bytes of one message on a socket; kubelets take as much."""
MAX_CALLS = 64
"""Calls at the same time on one socket that we serve."""
MAX_READS = 16
"""Claims that are read from the API server at the same time: each has a connection, and a kubelet that starts asks for
all claims of its node at once.
"""
MAX_PLUGINS = 64
MAX_DEVICES = 10_000
"""Of one plugin."""
MAX_ID = 253
"""Characters of a device's id."""
MAX_NUMA = 64
"""NUMA nodes of one device."""
MAX_FACTS = 32
"""Attributes and capacities of one published device, a limit of the API."""
MAX_EDITS = 1_000
"""Environment variables, mounts and device nodes of one answer, together."""
MAX_SPEC = 1 << 20
"""Bytes of one CDI spec."""
MAX_SOCKET_PATH = 107
"""Bytes of a socket's path, a limit of the kernel."""

DIAL = 10.0
"""Seconds until a plugin must have taken a connection and sent its first list."""
ALLOCATE = 30.0
PRE_START = 30.0
"""Seconds, as in kubelets."""
