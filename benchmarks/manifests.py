"""Loading a PodList of 20,000 pods, against the standard library's decoder on the same bytes.

    python -m benchmarks.manifests [PODS]

Prints how many times as fast the whole `load` (read, decode, check) is as `json.loads`, and what a loaded pod
keeps.
"""

from __future__ import annotations

import gc
import io
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from benchmarks.pods import pod_list
from fairway.api.manifests import load
from fairway.api.pods import Pod, pod_request

RATIO_WANTED = 2.0
BYTES_WANTED = 6144
_ROUNDS = 3


def main(pods: int) -> None:
    data = pod_list(pods)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pods.json")
        file.write_bytes(data)
        ours = _best(lambda: load([str(file)]))
        theirs = _best(lambda: json.loads(data))
        kept = _kept(lambda: load([str(file)]))
        objects = _kept(lambda: load([str(file)]).objects)
    print(f"{pods} pods of {len(data) // pods} bytes of JSON")
    print(f"load {ours:.3f} s, json.loads {theirs:.3f} s")
    print(f"load is {theirs / ours:.1f} times as fast (wanted: {RATIO_WANTED})")
    print(f"a loaded pod keeps {kept // pods} bytes (wanted: at most {BYTES_WANTED})")
    print(f"of these are the object itself: {objects // pods} bytes")
    print(f"pod_request takes {_request_micros(data):.2f} microseconds a pod")


def _best(action: Callable[[], object]) -> float:
    """Seconds of the fastest of a few runs; the result is dropped outside the measured time."""
    fastest = float("inf")
    for _ in range(_ROUNDS):
        gc.collect()
        start = time.perf_counter()
        result = action()
        fastest = min(fastest, time.perf_counter() - start)
        del result
    return fastest


def _kept(action: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    result = action()
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del result
    return kept


def _request_micros(data: bytes) -> float:
    loaded = load(["-"], stdin=io.BytesIO(data)).objects
    specs = [pod.spec for pod in loaded if isinstance(pod, Pod)]
    seconds = _best(lambda: [pod_request(spec) for spec in specs])
    return seconds / len(specs) * 1e6


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
