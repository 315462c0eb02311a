"""The sandbox: an embedded cluster and the real scheduler in scaled real time, with no Kubernetes.

`engine` is the sandbox itself, `store` the file that it is kept in, and `world` what a new one starts with. `commands`
carries out what users ask for, `journal` notes what happens, `pace` drives it in real time, and `client` is how other
commands find a running sandbox and talk to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairway.app import loader

if TYPE_CHECKING:
    from fairway.app.sandbox.client import (
        DEFAULT_PORT,
        Client,
        ObjectResult,
        RunningSandbox,
        announce,
        default_state,
        kept_token,
        withdraw,
    )
    from fairway.app.sandbox.commands import SHORT_NAMES, UnknownKindError, kind_named
    from fairway.app.sandbox.engine import Sandbox, create
    from fairway.app.sandbox.pace import Runner
    from fairway.app.sandbox.store import Store
    from fairway.app.sandbox.world import DEFAULT_POLICY, InitialWorld, demo_scenario, demo_world, files_world

__all__ = [
    "DEFAULT_POLICY",
    "DEFAULT_PORT",
    "SHORT_NAMES",
    "Client",
    "InitialWorld",
    "ObjectResult",
    "Runner",
    "RunningSandbox",
    "Sandbox",
    "Store",
    "UnknownKindError",
    "announce",
    "create",
    "default_state",
    "demo_scenario",
    "demo_world",
    "files_world",
    "kept_token",
    "kind_named",
    "withdraw",
]

__getattr__ = loader(
    __name__,
    {
        "Client": "client",
        "ObjectResult": "client",
        "DEFAULT_POLICY": "world",
        "DEFAULT_PORT": "client",
        "InitialWorld": "world",
        "Runner": "pace",
        "RunningSandbox": "client",
        "SHORT_NAMES": "commands",
        "Sandbox": "engine",
        "Store": "store",
        "UnknownKindError": "commands",
        "announce": "client",
        "create": "engine",
        "default_state": "client",
        "demo_scenario": "world",
        "demo_world": "world",
        "files_world": "world",
        "kept_token": "client",
        "kind_named": "commands",
        "withdraw": "client",
    },
)
