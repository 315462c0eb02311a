"""The types that Kubernetes adds to CEL: quantities, semantic versions, IP addresses, networks and URLs."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from fairway.cel.machine import function, register_kind
from fairway.cel.values import INT_MAX, INT_MIN, EvaluationError, register_type
from fairway.errors import QuantityError
from fairway.resources.quantity import parse_quantity

_NANO = 10**9
_MAX_TEXT = 64
_CORE = r"(0|[1-9][0-9]{0,17})"
_MARKS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER = re.compile(rf"{_CORE}\.{_CORE}\.{_CORE}(?:-({_MARKS}))?(?:\+({_MARKS}))?")


class CelQuantity(NamedTuple):
    """Quantities are equal if their amounts are, however they are written."""

    nanos: int


class CelVersion(NamedTuple):
    """A strict semantic version, ordered by precedence; build metadata is ignored."""

    parts: tuple[int, int, int]
    release: bool
    marks: tuple[tuple[int, int, str], ...]


for _kind, _python in (("Quantity", CelQuantity), ("Semver", CelVersion)):
    register_kind(_kind, _python)
    register_type(_python, f"kubernetes.{_kind}")


def quantity_of(text: str) -> CelQuantity | None:
    if len(text) > _MAX_TEXT:
        return None
    try:
        return CelQuantity(parse_quantity(text).nanos)
    except QuantityError:
        return None


def version_of(text: str, normalize: bool = False) -> CelVersion | None:
    """`normalize` drops a leading `v` and leading zeros, and adds missing parts."""
    if len(text) > _MAX_TEXT:
        return None
    match = _SEMVER.fullmatch(_normal(text) if normalize else text)
    if match is None:
        return None
    marks = match[4].split(".") if match[4] else []
    if any(mark.isdigit() and ((len(mark) > 1 and mark[0] == "0") or len(mark) > 18) for mark in marks):
        return None
    read = tuple((0, int(mark), "") if mark.isdigit() else (1, 0, mark) for mark in marks)
    return CelVersion((int(match[1]), int(match[2]), int(match[3])), not marks, read)


def _normal(text: str) -> str:
    core, mark, rest = re.fullmatch(r"([^-+]*)([-+]?)(.*)", text.removeprefix("v"), re.DOTALL).groups()  # type: ignore[union-attr]
    parts = [part.lstrip("0") or "0" if part else part for part in core.split(".")]
    if len(parts) < 3 and mark:
        return text
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + mark + rest


# -- quantities --------------------------------------------------------------------------------------------


@function("quantity", "string", "Quantity")
def _quantity(text: str) -> CelQuantity:
    found = quantity_of(text)
    if found is None:
        raise EvaluationError(f"{text!r:.80} is not a quantity")
    return found


@function("isQuantity", "string", "bool")
def _is_quantity(text: str) -> bool:
    return quantity_of(text) is not None


@function("isInteger", "Quantity", "bool", member=True)
def _is_integer(value: CelQuantity) -> bool:
    return value.nanos % _NANO == 0 and INT_MIN <= value.nanos // _NANO <= INT_MAX


@function("asInteger", "Quantity", "int", member=True)
def _as_integer(value: CelQuantity) -> int:
    if not _is_integer(value):
        raise EvaluationError("the quantity is not a whole number of 64 bits")
    return value.nanos // _NANO


@function("asApproximateFloat", "Quantity", "double", member=True)
def _as_float(value: CelQuantity) -> float:
    return value.nanos / _NANO


@function("sign", "Quantity", "int", member=True)
def _sign(value: CelQuantity) -> int:
    return (value.nanos > 0) - (value.nanos < 0)


@function("add", "Quantity Quantity", "Quantity", member=True)
def _add(left: CelQuantity, right: CelQuantity) -> CelQuantity:
    return CelQuantity(left.nanos + right.nanos)


@function("add", "Quantity int", "Quantity", member=True)
def _add_int(left: CelQuantity, right: int) -> CelQuantity:
    return CelQuantity(left.nanos + right * _NANO)


@function("sub", "Quantity Quantity", "Quantity", member=True)
def _sub(left: CelQuantity, right: CelQuantity) -> CelQuantity:
    return CelQuantity(left.nanos - right.nanos)


@function("sub", "Quantity int", "Quantity", member=True)
def _sub_int(left: CelQuantity, right: int) -> CelQuantity:
    return CelQuantity(left.nanos - right * _NANO)


# -- versions ----------------------------------------------------------------------------------------------


@function("semver", "string", "Semver")
def _semver(text: str) -> CelVersion:
    return _semver_as(text, False)


@function("semver", "string bool", "Semver")
def _semver_as(text: str, normalize: bool) -> CelVersion:
    found = version_of(text, normalize)
    if found is None:
        raise EvaluationError(f"{text!r:.80} is not a semantic version")
    return found


@function("isSemver", "string", "bool")
def _is_semver(text: str) -> bool:
    return version_of(text) is not None


@function("isSemver", "string bool", "bool")
def _is_semver_as(text: str, normalize: bool) -> bool:
    return version_of(text, normalize) is not None


for _place, _part in enumerate(("major", "minor", "patch")):
    function(_part, "Semver", "int", member=True)(lambda version, place=_place: version.parts[place])


def _compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


for _kind in ("Quantity", "Semver"):
    _pair = f"{_kind} {_kind}"
    function("compareTo", _pair, "int", member=True)(_compare)
    function("isGreaterThan", _pair, "bool", member=True)(lambda left, right: left > right)
    function("isLessThan", _pair, "bool", member=True)(lambda left, right: left < right)


_MAX_ADDRESS = 64
_MAX_URL = 2048
_MAX_QUERY = 100


class CelIP(NamedTuple):
    address: IPv4Address | IPv6Address


class CelCIDR(NamedTuple):
    """An address with a prefix length; bits after the prefix may be set."""

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
for _kind, _network_type, _name in _KINDS:
    register_kind(_kind, _network_type)
    register_type(_network_type, _name)


def ip_of(text: str) -> CelIP | None:
    """No zones, and no IPv4-mapped IPv6 addresses, as in Kubernetes."""
    if len(text) > _MAX_ADDRESS or "%" in text:
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
    if len(text) > _MAX_URL or not text.isprintable() or " " in text:
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
        return {**parse_qs(value.query, keep_blank_values=True, max_num_fields=_MAX_QUERY)}
    except ValueError:
        raise EvaluationError("the query of the URL has too many fields") from None
