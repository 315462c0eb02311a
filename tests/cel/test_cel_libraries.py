"""The functions that Kubernetes and Open Cluster Management add: what each gives, and what is an error."""

from __future__ import annotations

import pytest

from fairway.cel import Environment

ENVIRONMENT = Environment({"m": "dyn"}, extra=["includes"])
INPUT = {"m": {"s": "a,b,,c", "list": [3, 1, 2], "version": "1.31.2", "memory": "16Gi"}}

TRUE = """
m.s.split(",") == ["a", "b", "", "c"]
m.s.split(",", 2) == ["a", "b,,c"]
m.s.split(",", 0) == []
"abc".split("") == ["a", "b", "c"]
"hello".charAt(4) == "o" && "hello".charAt(5) == ""
"hello mellow".indexOf("ello") == 1 && "hello mellow".indexOf("ello", 2) == 7 && "hello".indexOf("jello") == -1
"hello mellow".lastIndexOf("ello") == 7 && "hello mellow".lastIndexOf("ello", 6) == 1
"TacoCat".lowerAscii() == "tacocat" && "TacoCÆt".upperAscii() == "TACOCÆT"
"hello hello".replace("he", "we") == "wello wello" && "hello hello".replace("he", "we", 1) == "wello hello"
"tacocat".substring(4) == "cat" && "tacocat".substring(0, 4) == "taco"
"  trim\\n ".trim() == "trim" && "gums".reverse() == "smug"
"\\u001c a\\u2003".trim() == "\\u001c a" && strings.quote("\\a\\b\\f\\v\\\\") == r'"\\a\\b\\f\\v\\\\"'
"abc".replace("", "-") == "-a-b-c-" && "abc".replace("", "-", 2) == "-a-bc" && "abc".replace("b", "", 0) == "abc"
"".split("") == [] && "".split(",") == [""] && "abc".split("", 2) == ["a", "bc"]
["hello", "mellow"].join(" ") == "hello mellow" && [].join() == ""
"%s is %d, %.2f, %x and %b".format(["a", 3, 1.5, 255, 5]) == "a is 3, 1.50, ff and 101"
strings.quote("a\\"b") == "\\"a\\\\\\"b\\""
"abc 123".find("[0-9]+") == "123" && "abc".find("[0-9]+") == ""
"123 abc 456".findAll("[0-9]*") != [] && "1 2 3".findAll("[0-9]", 2) == ["1", "2"]
"abc".matches("b") && !"abc".matches("^b")
[1, 2, 2].isSorted() && !m.list.isSorted()
m.list.sum() == 6 && [1.5, 2.5].sum() == 4.0 && [].sum() == 0
m.list.min() == 1 && m.list.max() == 3
m.list.indexOf(1) == 1 && [1, 2, 1].lastIndexOf(1) == 2 && m.list.indexOf(9) == -1
m.list.sort() == [1, 2, 3] && m.list.slice(1, 3) == [1, 2] && [1, 1, 2].distinct() == [1, 2]
[[1], [2, [3]]].flatten() == [1, 2, [3]] && [1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2]
sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])
quantity("1Gi") == quantity("1024Mi") && quantity("1000m") == quantity("1")
quantity(m.memory).isGreaterThan(quantity("15Gi")) && quantity("1").isLessThan(quantity("1.5"))
quantity("50k").add(20) == quantity("50020") && quantity("50k").sub(quantity("1k")) == quantity("49k")
quantity("50000000G").isInteger() && quantity("50M").asInteger() == 50000000 && !quantity("200m").isInteger()
quantity("50.703k").asApproximateFloat() == 50703.0 && quantity("-1").sign() == -1 && quantity("0").sign() == 0
isQuantity("1.3G") && !isQuantity("1.3GG") && !isQuantity("200K")
quantity("200M").compareTo(quantity("0.2G")) == 0
semver(m.version).isGreaterThan(semver("1.30.0")) && semver("1.2.3").compareTo(semver("1.2.3")) == 0
semver("1.0.0-alpha").isLessThan(semver("1.0.0")) && semver("1.0.0-alpha.1").isLessThan(semver("1.0.0-beta"))
semver("1.2.3").major() == 1 && semver("1.2.3").minor() == 2 && semver("1.2.3").patch() == 3
isSemver("1.2.3") && !isSemver("v1.2.3") && !isSemver("1.2") && !isSemver("01.2.3") && !isSemver("1.2.3.4")
semver("v1.2", true) == semver("1.2.0") && isSemver("01.01.01", true) && semver("01.01.01", true) == semver("1.1.1")
semver("1.2.3+a") == semver("1.2.3+b")
ip("127.0.0.1").isLoopback() && ip("::1").family() == 6 && ip("0.0.0.0").isUnspecified()
ip("224.0.0.1").isLinkLocalMulticast() && ip("169.254.169.254").isLinkLocalUnicast()
ip("192.168.0.1").isGlobalUnicast() && !ip("255.255.255.255").isGlobalUnicast() && !ip("ff02::1").isGlobalUnicast()
isIP("::1") && !isIP("127.0.0.256") && !isIP("::ffff:1.2.3.4") && !isIP("fe80::1%en0")
ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD") && string(ip("::0001")) == "::1"
cidr("192.168.0.0/24").containsIP("192.168.0.1") && cidr("192.168.0.0/24").containsIP(ip("192.168.0.1"))
cidr("192.168.0.0/16").containsCIDR("192.168.10.0/24") && !cidr("192.168.1.0/24").containsCIDR("192.168.2.0/24")
cidr("192.168.1.5/24").ip().family() == 4 && cidr("192.168.1.5/24").prefixLength() == 24
cidr("192.168.1.5/24").masked() == cidr("192.168.1.0/24") && string(cidr("10.0.0.0/8")) == "10.0.0.0/8"
isCIDR("192.168.0.0/24") && isCIDR("::1/128") && !isCIDR("192.168.0.0/") && !isCIDR("192.168.0.0/33")
url("https://user@example.com:80/a%20b?k=v").getHost() == "example.com:80" && url("/path").getScheme() == ""
url("https://[::1]:80/").getHostname() == "::1" && url("https://[::1]:80/").getPort() == "80"
url("https://example.com/p?k=a&k=b").getQuery() == {"k": ["a", "b"]} && !isURL("../relative") && !isURL("a b")
m.?gone.orValue("x") == "x" && m.?s.hasValue() && optional.of(1).or(optional.none()).value() == 1
m.?version.optMap(v, semver(v).minor()).orValue(0) == 31
m[?"gone"].hasValue() == false && optional.ofNonZeroValue("").hasValue() == false
[?m.?gone, ?m.?s] == ["a,b,,c"] && {"k": 1, ?"l": m.?gone} == {"k": 1}
m.list.includes(3) && !m.list.includes(9) && m.s.includes("a,b,,c")
1 < 1.5 && 2u > 1 && m.list[0] >= 2.5
timestamp("2026-01-02T03:04:05Z").getFullYear() == 2026 && duration("90m").getHours() == 1
timestamp("2026-01-02T03:04:05Z") - timestamp("2026-01-02T03:04:00Z") == duration("5s")
type(quantity("1")) == type(quantity("2")) && type(semver("1.0.0")) != type("a")
"""

ERRORS = """
quantity("three") == quantity("1")
semver("v1.2.3") == semver("1.2.3")
semver("200K").major() == 1
ip("1.2.3") == ip("::1")
cidr("10.0.0.0") == cidr("10.0.0.0/8")
url("not a url") == url("/")
quantity("1.5").asInteger() == 1
[1, "a"].isSorted()
[].min() == 1
"abc".substring(2, 1) == ""
"abc".charAt(9) == ""
"%d".format(["a"]) == ""
"%s %s".format(["a"]) == ""
[1].join(",") == ""
quantity("1").compareTo(dyn(semver("1.0.0"))) == 0
"""


@pytest.mark.parametrize("text", TRUE.strip().splitlines())
def test_what_functions_give(text: str) -> None:
    answer = ENVIRONMENT.program(text).run(INPUT)
    assert answer.error == ""
    assert answer.value is True


@pytest.mark.parametrize("text", ERRORS.strip().splitlines())
def test_what_is_an_error_fails_closed(text: str) -> None:
    answer = ENVIRONMENT.program(text).run(INPUT)
    assert answer.error
    assert answer.value is None
