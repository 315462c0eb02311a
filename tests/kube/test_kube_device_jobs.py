"""Jobs that ask for devices in every way there is, on a real cluster: limits of classes and of extended resources,
claims by name that pods and gangs share, and templates. What `kubectl` and `fairway classes` say agrees at each step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agent.players import eventually
from kube.cluster import Cluster
from kube.controlplane.plane import ControlPlane
from kube.device_site import CLAIMS, CLASS, ClaimController, Site, device_site, devices, forbidden, pod
from kube.live import Live

DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"
FREE = {"fast-gpu": (4, 0), "any-gpu": (8, 0), "gpu-pair": (2, 0), "nic": (4, 0)}


@pytest.fixture(name="site")
def a_site(installed: ControlPlane, cluster: Cluster) -> Iterator[Site]:
    with device_site(installed, cluster) as site:
        expression = 'device.attributes["devices.fairway.dev"].kind == "gpu"'
        spec = {"selectors": [{"cel": {"expression": expression}}], "extendedResourceName": "example.com/any"}
        cluster.make(DEVICE_CLASSES, {"metadata": {"name": f"{cluster.namespace[:20]}.gpu"}, "spec": spec})
        yield site


def claiming(site: Site, name: str, *, claim: str = "", template: str = "", **spec: Any) -> None:
    entry = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    container = {"name": "c0", "image": "i", "resources": {"claims": [{"name": "d"}]}}
    site.cluster.pod(name, containers=[container], resourceClaims=[{"name": "d", **entry}], **spec)


def asked(device_class: str, count: int = 1) -> dict[str, Any]:
    request = {"name": "r", "exactly": {"deviceClassName": device_class, "count": count}}
    return {"devices": {"requests": [request]}}


def agrees(site: Site, **requested: int) -> None:
    """The classes' statuses are these, and the command says the same."""
    want = {name: (there, requested.get(name.replace("-", "_"), 0)) for name, (there, _) in FREE.items()}
    eventually(lambda: site.status() == want, f"the classes' statuses are {want}")
    assert site.shown() == want
    assert site.listed() == want


def test_limits_claims_and_templates_share_the_devices_and_give_all_back(site: Site) -> None:
    cluster, controller = site.cluster, ClaimController(site)
    claims = CLAIMS.format(cluster.namespace)
    with Live(cluster, user="scheduler") as live:
        agrees(site)

        # a plain limit, served by a DeviceClass: the kubelet is told by the special claim
        limits = {"example.com/any": "1", f"{CLASS}nic": "1"}
        cluster.pod("plain", containers=[{"name": "c0", "image": "i", "resources": {"limits": limits}}])
        eventually(lambda: cluster.places()["plain"])
        (own,) = devices(site)["plain"]
        assert sorted(one.partition("-")[0] for one in own) == ["GPU", "nic"]
        named = cluster.get(f"{cluster.pods}/plain")["status"]["extendedResourceClaimStatus"]
        assert named["resourceClaimName"].startswith("plain-extended-resources-")
        special = cluster.get(f"{claims}/{named['resourceClaimName']}")
        assert special["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
        assert special["metadata"]["ownerReferences"][0]["name"] == "plain"
        assert {one["resourceName"] for one in named["requestMappings"]} == set(limits)
        agrees(site, fast_gpu=1, any_gpu=1, gpu_pair=1, nic=1)

        # a claim by name, shared by a pod and by the two pods of a gang: all where its device is
        cluster.make(claims, {"metadata": {"name": "shared"}, "spec": asked("nic")})
        claiming(site, "first", claim="shared")
        eventually(lambda: cluster.places()["first"])
        group = {
            "kind": "PodGroup",
            "metadata": {"name": "gang"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        }
        cluster.make(GROUPS.format(cluster.namespace), group)
        for name in ("gang-0", "gang-1"):
            claiming(site, name, claim="shared", schedulingGroup={"podGroupName": "gang"})
        eventually(lambda: all(cluster.places().values()), "the gang is bound")
        places = cluster.places()
        assert places["first"] == places["gang-0"] == places["gang-1"]
        given = devices(site)
        assert given["first"] == given["gang-0"] == given["gang-1"]
        users = cluster.get(f"{claims}/shared")["status"]["reservedFor"]
        assert {user["name"] for user in users} == {"first", "gang-0", "gang-1"}
        agrees(site, fast_gpu=1, any_gpu=1, gpu_pair=1, nic=2)

        # templates: the claim controller makes the claims, the scheduler allocates them
        templates = claims.replace("resourceclaims", "resourceclaimtemplates")
        cluster.make(templates, {"metadata": {"name": "two"}, "spec": {"spec": asked("any-gpu", 2)}})
        for name in ("t0", "t1"):
            claiming(site, name, template="two")
        controller.run()
        eventually(lambda: all(cluster.places().values()), "pods with templates are bound")
        given = devices(site)
        taken = [(cluster.places()[name], one) for name in ("t0", "t1", "plain") for one in given[name][0]]
        assert len(set(taken)) == len(taken) == 6, "no device twice"
        eventually(lambda: site.status()["any-gpu"] == (8, 5), "the templates are counted")
        assert site.status() == site.shown() == site.listed()

        # everything is free again
        for name in list(cluster.places()):
            cluster.delete(f"{cluster.pods}/{name}", grace=None)
        eventually(lambda: site.sync() == {} and not cluster.places())
        controller.run()
        agrees(site)
        assert [one["metadata"]["name"] for one in cluster.get(claims)["items"]] == ["shared"]
        assert not cluster.get(f"{claims}/shared").get("status")
        assert forbidden(live) == []


def test_a_class_pod_takes_what_the_limit_could_have(site: Site) -> None:
    cluster = site.cluster
    with Live(cluster, user="scheduler"):
        agrees(site)
        pod(site, "all", {"any-gpu": 4})
        eventually(lambda: cluster.places()["all"])
        for number in range(5):
            limits = {"example.com/any": "1"}
            cluster.pod(f"p{number}", containers=[{"name": "c0", "image": "i", "resources": {"limits": limits}}])
        eventually(lambda: sum(map(bool, cluster.places().values())) == 5, "four more are bound")
        given = devices(site)
        assert sorted(one for name, (own,) in given.items() if name != "all" for one in own) == [
            f"GPU-{number}" for number in range(4)
        ]
        agrees(site, fast_gpu=4, any_gpu=8, gpu_pair=2)
