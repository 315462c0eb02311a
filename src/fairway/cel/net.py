"""Addresses, networks and URLs, as the libraries of Kubernetes have them."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from fairway.cel.errors import EvaluationError
from fairway.cel.functions import function, register_kind
from fairway.cel.values import register_type

_MOST_TEXT = 64
_MOST_URL = 2048
_MOST_QUERY = 100


class CelIP(NamedTuple):
    address: IPv4Address | IPv6Address


class CelCIDR(NamedTuple):
    """An address with the length of its prefix; bits behind that may be set."""

    address: IPv4Address | IPv6Address
    prefix: int

    @property
    def network(self) -> IPv4Network | IPv6Network:
        return ip_network((self.address, self.prefix), strict=False)


class CelURL(NamedTuple):
    scheme: str
    host: str
    path: str
    query: str


_KINDS = (("IP", CelIP, "net.IP"), ("CIDR", CelCIDR, "net.CIDR"), ("URL", CelURL, "kubernetes.URL"))
for _kind, _python, _name in _KINDS:
    register_kind(_kind, _python)
    register_type(_python, _name)


def ip_of(text: str) -> CelIP | None:
    """No zones, and no IPv4 address written as IPv6, as in Kubernetes."""
    if len(text) > _MOST_TEXT or "%" in text:
        return None
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.ipv4_mapped else CelIP(address)


def cidr_of(text: str) -> CelCIDR | None:
    host, slash, length = text.partition("/")
    address = ip_of(host)
    if address is None or not slash or not (length.isascii() and length.isdigit() and len(length) <= 3):
        return None
    if int(length) > address.address.max_prefixlen or (length[0] == "0" and length != "0"):
        return None
    return CelCIDR(address.address, int(length))


def url_of(text: str) -> CelURL | None:
    """An absolute URL, or an absolute path."""
    if len(text) > _MOST_URL or not text.isprintable() or " " in text:
        return None
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - it raises for what is no port
    except ValueError:
        return None
    absolute = parts.scheme and (parts.netloc or parts.path)
    return CelURL(parts.scheme, parts.netloc, parts.path, parts.query) if absolute or text.startswith("/") else None


# -- addresses ---------------------------------------------------------------------------------------------


@function("ip", "string", "IP")
def _ip(text: str) -> CelIP:
    found = ip_of(text)
    if found is None:
        raise EvaluationError(f"{text!r:.80} is not an IP address")
    return found


@function("isIP", "string", "bool")
def _is_ip(text: str) -> bool:
    return ip_of(text) is not None


@function("ip.isCanonical", "string", "bool")
def _is_canonical(text: str) -> bool:
    return str(_ip(text).address) == text


@function("string", "IP", "string", declared=False)
def _ip_text(value: CelIP) -> str:
    return str(value.address)


@function("family", "IP", "int", member=True)
def _family(value: CelIP) -> int:
    return value.address.version


@function("isUnspecified", "IP", "bool", member=True)
def _is_unspecified(value: CelIP) -> bool:
    return value.address.is_unspecified


@function("isLoopback", "IP", "bool", member=True)
def _is_loopback(value: CelIP) -> bool:
    return value.address.is_loopback


@function("isLinkLocalMulticast", "IP", "bool", member=True)
def _is_link_local_multicast(value: CelIP) -> bool:
    network = ip_network("224.0.0.0/24") if value.address.version == 4 else ip_network("ff02::/16")
    return value.address in network


@function("isLinkLocalUnicast", "IP", "bool", member=True)
def _is_link_local_unicast(value: CelIP) -> bool:
    return value.address.is_link_local


@function("isGlobalUnicast", "IP", "bool", member=True)
def _is_global_unicast(value: CelIP) -> bool:
    address = value.address
    other = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not other and str(address) != "255.255.255.255"


# -- networks ----------------------------------------------------------------------------------------------


@function("cidr", "string", "CIDR")
def _cidr(text: str) -> CelCIDR:
    found = cidr_of(text)
    if found is None:
        raise EvaluationError(f"{text!r:.80} is not a CIDR")
    return found


@function("isCIDR", "string", "bool")
def _is_cidr(text: str) -> bool:
    return cidr_of(text) is not None


@function("string", "CIDR", "string", declared=False)
def _cidr_text(value: CelCIDR) -> str:
    return f"{value.address}/{value.prefix}"


@function("containsIP", "CIDR IP", "bool", member=True)
def _contains_ip(value: CelCIDR, other: CelIP) -> bool:
    return other.address in value.network


@function("containsIP", "CIDR string", "bool", member=True)
def _contains_ip_text(value: CelCIDR, text: str) -> bool:
    return _contains_ip(value, _ip(text))


@function("containsCIDR", "CIDR CIDR", "bool", member=True)
def _contains_cidr(value: CelCIDR, other: CelCIDR) -> bool:
    same = value.address.version == other.address.version
    return same and other.prefix >= value.prefix and other.network.network_address in value.network


@function("containsCIDR", "CIDR string", "bool", member=True)
def _contains_cidr_text(value: CelCIDR, text: str) -> bool:
    return _contains_cidr(value, _cidr(text))


@function("ip", "CIDR", "IP", member=True)
def _cidr_ip(value: CelCIDR) -> CelIP:
    return CelIP(value.address)


@function("prefixLength", "CIDR", "int", member=True)
def _prefix_length(value: CelCIDR) -> int:
    return value.prefix


@function("masked", "CIDR", "CIDR", member=True)
def _masked(value: CelCIDR) -> CelCIDR:
    return CelCIDR(value.network.network_address, value.prefix)


# -- URLs --------------------------------------------------------------------------------------------------


@function("url", "string", "URL")
def _url(text: str) -> CelURL:
    found = url_of(text)
    if found is None:
        raise EvaluationError(f"{text!r:.80} is not a URL")
    return found


@function("isURL", "string", "bool")
def _is_url(text: str) -> bool:
    return url_of(text) is not None


@function("getScheme", "URL", "string", member=True)
def _scheme(value: CelURL) -> str:
    return value.scheme


@function("getHost", "URL", "string", member=True)
def _host(value: CelURL) -> str:
    return value.host.rpartition("@")[2]


@function("getHostname", "URL", "string", member=True)
def _hostname(value: CelURL) -> str:
    host = _host(value)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


@function("getPort", "URL", "string", member=True)
def _port(value: CelURL) -> str:
    return _host(value).rpartition("]")[2].partition(":")[2]


@function("getEscapedPath", "URL", "string", member=True)
def _path(value: CelURL) -> str:
    return value.path


@function("getQuery", "URL", "dyn", member=True)
def _query(value: CelURL) -> dict[str, Any]:
    try:
        return {**parse_qs(value.query, keep_blank_values=True, max_num_fields=_MOST_QUERY)}
    except ValueError:
        raise EvaluationError("the query of the URL has too many fields") from None
