"""Every address of the page's API that is read, from its OpenAPI document: for tests of what a user is shown."""

from collections.abc import Sequence

from fairway.web.openapi import document

QUERIES = (
    "", "facets=true&group=namespace", "search=low&group=label:x", "holder=device", "sort=nonsense", "kind=evicted",
    "job=own/taker", "pods=1&request=cpu=1",
)  # fmt: skip


def read_addresses(*, jobs: Sequence[str], queues: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """All but the stream of events, with these names in paths, and with filters where an operation has them."""
    found = []
    for path, methods in document()["paths"].items():
        if "get" not in methods or path == "/api/v1/events":
            continue
        paths = [path]
        if "{job}" in path:
            paths = [path.replace("{job}", job) for job in jobs]
        elif "{name}" in path:
            names = queues if "queues" in path else nodes
            paths = [path.replace("{name}", name) for name in names]
        elif "{which}" in path:
            paths = [path.replace("{which}", which) for which in ("pods", *(f"pod/{job}" for job in jobs))]
        given = [one["name"] for one in methods["get"]["parameters"] if one["in"] == "query"]
        for one in paths:
            found += [
                f"{one}?{query}" if query else one
                for query in QUERIES
                if all(part.partition("=")[0] in given for part in query.split("&") if part)
            ]
    return found
