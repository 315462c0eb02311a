"""What Volcano's scheduler needs to be there: its own definitions, from its Go module, and a queue that is open."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from benchmarks.on_server.cluster import VOLCANO_GROUP, BenchCluster
from fairway.errors import ApiError

MODULE = "volcano.sh/volcano@v1.15.1"
_PATIENCE = 60


async def install(cluster: BenchCluster) -> None:
    for crd in await asyncio.to_thread(_definitions):
        await cluster.client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    path = f"/apis/{VOLCANO_GROUP}/queues"
    queue = {"apiVersion": VOLCANO_GROUP, "kind": "Queue", "metadata": {"name": "default"}, "spec": {"weight": 1}}
    for tries in range(_PATIENCE):
        try:
            await cluster.client.request("POST", path, queue)
            break
        except ApiError:
            if tries == _PATIENCE - 1:
                raise
            await asyncio.sleep(0.5)
    status = {"status": {"state": "Open"}}
    content = "application/merge-patch+json"
    await cluster.client.request("PATCH", f"{path}/default/status", status, content_type=content)


def _definitions() -> list[dict[str, object]]:
    with TemporaryDirectory() as folder:
        command = ["go", "mod", "download", "-json", MODULE]
        found = json.loads(subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout)
    where = Path(found["Dir"]) / "config" / "crd" / "volcano" / "bases"
    return [yaml.safe_load(path.read_text()) for path in sorted(where.glob("*.yaml"))]
