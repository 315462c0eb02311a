"""What a pod asks of devices: containers together, init containers before them, fractions, claims."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert, structs

from fairway.api.pods import PodClaimStatus
from fairway.state.device_requests import ClaimRequest, ClassRequest, DeviceRequests, device_record, device_requests_of
from support.objects import pod

PREFIX = "resourceclass.fairway.dev/"


def container(name: str, *, sidecar: bool = False, **classes: str) -> dict[str, Any]:
    limits = {f"{PREFIX}{key}": text for key, text in classes.items()}
    return {"name": name, "resources": {"limits": limits}, **({"restartPolicy": "Always"} if sidecar else {})}


def asks(
    containers: list[dict[str, Any]], init: list[dict[str, Any]] | None = None, **more: Any
) -> DeviceRequests | None:
    found = pod("p", spec={"containers": containers, "initContainers": init or []}, **more)
    return device_requests_of(found, lambda claim, template: claim == "default/allocated")  # type: ignore[arg-type]


def test_a_pod_that_asks_for_no_device() -> None:
    assert asks([container("a")]) is None
    assert asks([container("a", c="0")]) == DeviceRequests()


@pytest.mark.parametrize(
    ("containers", "init", "expected"),
    [
        (["1", "1"], [], (2, ())),
        (["500m", "500m"], [], (0, (500, 500))),
        (["1500m"], [], (1, (500,))),
        (["1"], ["3", "2"], (3, ())),
        (["2"], ["1"], (2, ())),
        (["500m", "500m"], ["1"], (1, ())),
        (["600m", "600m"], ["1"], (1, (600,))),
        (["1"], ["500m"], (1, ())),
        (["300m"], ["500m"], (0, (500,))),
        (["2500m"], ["2700m"], (2, (700,))),
    ],
)
def test_whole_units_and_fractions(
    containers: list[str], init: list[str], expected: tuple[int, tuple[int, ...]]
) -> None:
    found = asks(
        [container(f"c{i}", k=text) for i, text in enumerate(containers)],
        [container(f"i{i}", k=text) for i, text in enumerate(init)],
    )
    assert found == DeviceRequests((ClassRequest("k", *expected),))


def test_sidecars_run_beside_those_that_come_after_them() -> None:
    init = [container("first", k="2"), container("side", sidecar=True, k="1"), container("second", k="3")]
    found = asks([container("main", k="1")], init)
    assert found is not None
    assert found.classes == (ClassRequest("k", 4),)


def test_classes_are_in_order_of_name_whatever_the_order_in_the_pod() -> None:
    assert asks([container("a", z="1", b="2")]) == asks([container("a", b="2"), container("b", z="1")])


def test_the_pods_own_strategy() -> None:
    def strategy(text: str) -> tuple[str, ...]:
        found = asks([container("a", k="1")], annotations={"fairway.dev/device-strategy": text})
        assert found is not None
        return found.strategy

    assert strategy("numa, pack") == ("numa", "pack")
    assert strategy("pack,best") == (), "one that does not exist counts as none given"


def claiming(entry: dict[str, str], status: dict[str, str] | None = None, **more: Any) -> DeviceRequests | None:
    found = pod("p", spec={"resourceClaims": [{"name": "c", **entry}]}, **more)
    if status:
        statuses = (convert({"name": "c", **status}, PodClaimStatus),)
        found = structs.replace(found, status=structs.replace(found.status, resource_claim_statuses=statuses))  # type: ignore[type-var]
    return device_requests_of(found, lambda claim, template: claim == "default/allocated")  # type: ignore[arg-type]


def test_claims_by_name_and_by_template() -> None:
    named = claiming({"resourceClaimName": "mine"})
    assert named == DeviceRequests(claims=(ClaimRequest("c", "default/mine", ""),))
    by_template = claiming({"resourceClaimTemplateName": "t"})
    assert by_template == DeviceRequests(claims=(ClaimRequest("c", "", "default/t"),))


def test_a_claim_made_for_the_pod_counts_by_its_template_until_it_is_allocated() -> None:
    entry = {"resourceClaimTemplateName": "t"}
    assert claiming(entry, {"resourceClaimName": "p-c"}) == claiming(entry)
    allocated = DeviceRequests(claims=(ClaimRequest("c", "default/allocated", ""),))
    assert claiming(entry, {"resourceClaimName": "allocated"}) == allocated
    bound = claiming(entry, {"resourceClaimName": "p-c"}, node="n1")
    assert bound == DeviceRequests(claims=(ClaimRequest("c", "default/p-c", ""),))


def test_the_record_is_what_the_annotations_say_of_devices() -> None:
    record = {"scheduler.alpha.kubernetes.io/resClass_b_d": "1", "scheduler.alpha.kubernetes.io/resClass_a_d": "2"}
    assert device_record({**record, "other": "x"}) == tuple(sorted(record.items()))
    assert device_record({}) == ()
