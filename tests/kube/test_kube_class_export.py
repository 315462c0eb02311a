"""`fairway classes export --apply` on a real API server: DeviceClasses that are kept in step with ResourceClasses."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from kube.cluster import Cluster, eventually
from kube.controlplane.plane import ControlPlane
from support.cli import invoke

CLASSES = "/apis/fairway.dev/v1alpha1/resourceclasses"
DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


class Classes:
    def __init__(self, plane: ControlPlane, cluster: Cluster) -> None:
        self.cluster = cluster
        self.options = ("--kubeconfig", str(plane.kubeconfig("admin")))

    def make(self, name: str, *expressions: tuple[str, str, list[str]], **spec: Any) -> None:
        terms = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
        body = {
            "apiVersion": "fairway.dev/v1alpha1",
            "kind": "ResourceClass",
            "metadata": {"name": name},
            "spec": {"resourceSelector": [{"matchExpressions": terms}], **spec},
        }
        self.cluster.make(CLASSES, body)

    def export(self, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
        result = invoke("classes", "export", "--apply", "-o", "json", *self.options, *words)
        assert result.code in (0, 1), result.err
        return result.code, {one["name"]: one for one in json.loads(result.out)["deviceClasses"]}

    def there(self) -> dict[str, str]:
        """The expression of each DeviceClass that has an owner."""
        items = self.cluster.get(DEVICE_CLASSES)["items"]
        return {
            one["metadata"]["name"]: one["spec"]["selectors"][0]["cel"]["expression"]
            for one in items
            if one["metadata"].get("ownerReferences")
        }


@pytest.fixture(name="classes")
def some_classes(installed: ControlPlane, cluster: Cluster) -> Any:
    classes = Classes(installed, cluster)
    yield classes
    for name in classes.there():
        cluster.delete(f"{DEVICE_CLASSES}/{name}")


def test_classes_are_published_changed_and_withdrawn(classes: Classes, cluster: Cluster) -> None:
    classes.make("fast.nic", ("Kind", "In", ["nic"]), ("speed", "GtEq", ["40G"]))
    classes.make("any.gpu", ("Kind", "In", ["gpu"]))
    code, found = classes.export()
    assert code == 0
    assert {name: one["result"] for name, one in found.items()} == {"fast.nic": "created", "any.gpu": "created"}
    first = classes.there()
    assert set(first) == {"fast.nic", "any.gpu"}
    code, found = classes.export()
    assert {one["result"] for one in found.values()} == {"unchanged"}

    # what an administrator adds stays, what Fairway wrote is repaired
    path = f"{DEVICE_CLASSES}/any.gpu"
    spec = {"extendedResourceName": "example.com/gpu", "selectors": [{"cel": {"expression": "true"}}]}
    cluster.plane.call("PATCH", path, {"spec": spec}, kind="merge")
    code, found = classes.export("--class", "any.gpu")
    assert {name: one["result"] for name, one in found.items()} == {"any.gpu": "changed"}
    assert classes.there() == first
    assert cluster.get(path)["spec"]["extendedResourceName"] == "example.com/gpu"

    # made again with another spec: in step; gone: gone
    cluster.delete(f"{CLASSES}/any.gpu")
    classes.make("any.gpu", ("Kind", "In", ["gpu", "mig"]))
    cluster.delete(f"{CLASSES}/fast.nic")
    code, found = classes.export()
    assert (code, {name: one["result"] for name, one in found.items()}) == (
        0,
        {"any.gpu": "changed", "fast.nic": "deleted"},
    )
    assert classes.there()["any.gpu"] != first["any.gpu"]
    uid = cluster.get(f"{CLASSES}/any.gpu")["metadata"]["uid"]
    assert cluster.get(path)["metadata"]["ownerReferences"][0]["uid"] == uid


def test_what_cannot_be_said_is_reported_and_nothing_of_others_is_touched(classes: Classes, cluster: Cluster) -> None:
    classes.make("plain", ("Kind", "In", ["gpu"]))
    classes.make("pinned", ("node", "In", ["n1"]))
    classes.make("pair", includes=[{"class": "plain", "count": 2}])
    classes.make("closed", ("Kind", "In", ["gpu"]), allowedNamespaces={"matchLabels": {"team": "a"}})
    cluster.make(DEVICE_CLASSES, {"metadata": {"name": "taken"}, "spec": {}})
    classes.make("taken", ("Kind", "In", ["gpu"]))
    code, found = classes.export()
    assert code == 1
    assert {name: one["result"] for name, one in found.items()} == {
        "plain": "created",
        "pinned": "left out",
        "pair": "left out",
        "closed": "left out",
        "taken": "refused",
    }
    assert found["closed"]["notExpressed"][0]["field"] == "spec.allowedNamespaces"
    assert "did not make" in found["taken"]["message"]
    assert "selectors" not in cluster.get(f"{DEVICE_CLASSES}/taken")["spec"]
    assert set(classes.there()) == {"plain"}
    table = invoke("classes", "export", "--apply", *classes.options)
    assert table.code == 1
    assert any(line.split()[:3] == ["pair", "left", "out"] and "includes" in line for line in table.out.splitlines())
    assert classes.export("--class", "plain")[0] == 0
    missing = invoke("classes", "export", "--apply", "--class", "no-such", *classes.options)
    assert (missing.code, "no class no-such" in missing.err) == (2, True)


EVERY_FORM: list[list[tuple[str, str, list[str]]]] = [
    [("Kind", "NotIn", ["gpu", "mig"]), ("driver", "Eq", ["gpu.example.com"])],
    [("a.com/model", "In", ["a", "5", "true", "1.2.3", "60Gi"])],
    [("model", "NotIn", ["a", "b"])],
    [("count", "NotIn", ["5", "6"])],
    [("count", "Lt", ["5.5"]), ("version", "GtEq", ["v1.2.3"])],
    [("memory", "GtEq", ["60Gi"]), ("other", "Exists", []), ("absent", "DoesNotExist", [])],
]


def test_the_server_takes_the_expression_of_every_form(classes: Classes) -> None:
    """It refuses what could be expensive, by an estimate that no other CEL has."""
    for number, form in enumerate(EVERY_FORM):
        classes.make(f"form-{number}", *form)
    code, found = classes.export()
    assert (code, {one["result"] for one in found.values()}) == (0, {"created"}), found


def test_with_watch_they_are_kept_in_step(classes: Classes, cluster: Cluster) -> None:
    code = "import fairway.cli.classes as a; a.EVERY = 0.2; from fairway.cli.main import main; main()"
    words = ["classes", "export", "--apply", "--watch", *classes.options]
    process = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        classes.make("late", ("Kind", "In", ["gpu"]))
        eventually(lambda: set(classes.there()) == {"late"}, "the class is published")
        cluster.delete(f"{CLASSES}/late")
        eventually(lambda: classes.there() == {}, "it is withdrawn")
    finally:
        process.terminate()
        process.communicate(timeout=30)
