"""Names that Kubernetes accepts, from what plugins call their resources and devices.

A name that is a DNS label already stays as it is. Others are made into one, with a part of their hash at the end, so
that `GPU-1` and `gpu_1` stay two.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_RESOURCE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_OTHER = re.compile(r"[^a-z0-9]+")
_HASHES = (8, 16, 32)
MAX_POOL = 253
"""Characters of the name of a pool, a limit of the API."""


def device_names(ids: Iterable[str]) -> dict[str, str]:
    """A DNS label for each id, all different, whatever their order."""
    every = sorted(set(ids))
    names = {one: one for one in every if _LABEL.fullmatch(one)}
    others = [one for one in every if one not in names]
    taken = set(names.values())
    for one in others:
        name = next(name for length in _HASHES if (name := _hashed(one, length)) not in taken)
        names[one] = name
        taken.add(name)
    return names


def pool_name(node: str, resource: str) -> str:
    """`<node>/<resource>`, each part between slashes a DNS subdomain."""
    parts = [part if _SUBDOMAIN.fullmatch(part) else _hashed(part, 8) for part in resource.split("/")]
    name = "/".join([node, *parts])
    return name if len(name) <= MAX_POOL else f"{node}/{_hashed(resource, 16)}"


def is_driver_name(name: str) -> bool:
    return len(name) <= 63 and _SUBDOMAIN.fullmatch(name) is not None


def resource_problem(name: str) -> str:
    """Why a plugin may not offer a resource of this name; "" if it may."""
    domain, slash, rest = name.partition("/")
    if not slash or len(domain) > 253 or not _SUBDOMAIN.fullmatch(domain) or not _RESOURCE.fullmatch(rest):
        return f"{name[:100]!r} is not the name of an extended resource, expected domain/name"
    if domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or domain.startswith("requests."):
        return f"{name!r} is in a domain of Kubernetes, expected a domain of the vendor"
    return ""


def _hashed(text: str, length: int) -> str:
    slug = _OTHER.sub("-", text.lower()).strip("-")[: 62 - length].strip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
    return f"{slug}-{digest}" if slug else digest
