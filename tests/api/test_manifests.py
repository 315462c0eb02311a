"""Loading files as a user would name them, and what is printed when something is wrong."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.api import documents
from fairway.api.devices import ResourceClass
from fairway.api.kinds import KINDS, OTHER_FORMS, key
from fairway.api.manifests import load, parse_object
from fairway.errors import InputError, ManifestError
from support.effort import examples

NODE = "apiVersion: v1\nkind: Node\nmetadata:\n  name: {}\n"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str | bytes) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return name


def names(*files: str, stdin: bytes = b"") -> list[str]:
    return [obj.metadata.name for obj in load(files, stdin=io.BytesIO(stdin)).objects]


def printed(*files: str, stdin: bytes = b"") -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load(files, stdin=io.BytesIO(stdin))
    return str(caught.value).splitlines()


class TestSources:
    def test_files_folders_patterns_and_standard_input_in_the_order_given(self) -> None:
        write("z.yaml", NODE.format("z"))
        write("dir/b.yml", NODE.format("b"))
        write("dir/sub/a.json", json.dumps(yaml.safe_load(NODE.format("a"))))
        write("dir/notes.txt", "not: {a manifest")
        write("dir/.hidden/x.yaml", NODE.format("hidden"))
        write("p1.yaml", NODE.format("p1"))
        write("p2.yaml", NODE.format("p2"))
        found = names("z.yaml", "dir", "p*.yaml", "-", stdin=NODE.format("in").encode())
        assert found == ["z", "b", "a", "p1", "p2", "in"]

    def test_a_file_named_twice_is_read_once(self) -> None:
        write("d/a.yaml", NODE.format("a"))
        assert names("d", "d/a.yaml", "./d/../d/*.yaml", "-", "-", stdin=NODE.format("b").encode()) == [
            "a",
            "b",
        ]

    def test_a_file_of_another_ending_is_known_by_its_content(self) -> None:
        write("one", NODE.format("a"))
        write("two", '\n {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}')
        write("three.yaml", '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}}')
        write("four.yaml", "{apiVersion: v1, kind: Node, metadata: {name: d}}")
        assert names("one", "two", "three.yaml", "four.yaml") == ["a", "b", "c", "d"]

    def test_a_byte_order_mark_is_no_content(self) -> None:
        write("a.yaml", b"\xef\xbb\xbf" + NODE.format("a").encode())
        write("b.json", b'\xef\xbb\xbf{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}}')
        assert names("a.yaml", "b.json") == ["a", "b"]

    def test_what_cannot_be_found(self) -> None:
        Path("empty").mkdir()
        assert printed("none.yaml", "x*.yaml", "empty", "a\0b", "x" * 5000) == [
            "none.yaml: no such file, expected a file, a folder, a pattern or -",
            "x*.yaml: no file matches this pattern, expected at least one",
            "empty: no manifests in this folder, expected at least one file named *.yaml, *.yml, *.json",
            "a\0b: not the name of a file: embedded null byte",
            "x" * 60 + ": not the name of a file: File name too long",
        ]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_what_may_not_be_read(self) -> None:
        Path(write("a.yaml", "")).chmod(0)
        assert printed("a.yaml") == ["a.yaml: cannot be read: Permission denied"]

    def test_a_link_to_itself(self) -> None:
        Path("a.yaml").symlink_to("a.yaml")
        assert printed("a.yaml") == ["a.yaml: cannot be read: Too many levels of symbolic links"]

    def test_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(documents, "MAX_YAML_BYTES", 2**20)
        monkeypatch.setattr(documents, "MAX_JSON_BYTES", 2**21)
        write("a.yaml", "#" * (2**20 + 1))
        write("b.json", " " * (2**21 + 1))
        assert printed("a.yaml", "b.json", "-", stdin=b"#" * 2**22) == [
            "a.yaml: the file is too large, expected at most 1 MiB of YAML; JSON may be larger",
            "b.json: the file is too large, expected at most 2 MiB of JSON",
            "standard input: the file is too large, expected at most 1 MiB of YAML; JSON may be larger",
        ]

    def test_nothing_in_a_file(self) -> None:
        write("a.yaml", "# nothing\n---\n---\n")
        write("b.json", " \n")
        assert names("a.yaml") == []
        assert printed("b.json") == ["b.json:1: the file is empty, expected a JSON object"]


class TestLists:
    def test_yaml_documents_and_lists(self) -> None:
        listing = {
            "kind": "List",
            "apiVersion": "v1",
            "items": [yaml.safe_load(NODE.format(n)) for n in "bc"],
        }
        nested = {"kind": "List", "apiVersion": "v1", "items": [listing]}
        write("a.yaml", NODE.format("a") + "---\n" + yaml.safe_dump(nested))
        assert names("a.yaml") == ["a", "b", "c"]

    @pytest.mark.parametrize("dump", [json.dumps, yaml.safe_dump])
    def test_entries_of_a_typed_list_need_no_kind(self, dump: Any) -> None:
        items = [{"metadata": {"name": "a"}}, {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "b"}}]
        assert names("-", stdin=dump({"kind": "NodeList", "apiVersion": "v1", "items": items}).encode()) == [
            "a",
            "b",
        ]

    def test_a_list_of_nothing(self) -> None:
        assert names("-", stdin=b'{"kind": "PodList", "apiVersion": "v1", "items": null}') == []
        assert names("-", stdin=b"{kind: List, items: []}") == []

    def test_a_list_without_items(self) -> None:
        write("a.yaml", "kind: List\nitems: 3\n")
        write("b.json", '{"kind": "List"}')
        assert printed("a.yaml", "b.json") == [
            "a.yaml:2: items: is missing, expected a list of objects",
            "b.json:1: items: is missing, expected a list of objects",
        ]

    def test_json_documents_one_after_the_other(self) -> None:
        one = '{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{}"}}}}\n'
        write("a.json", one.format("a") + one.format("b"))
        assert names("a.json") == ["a", "b"]
        write("b.json", one.format("a") + one.format("É"))
        assert printed("b.json")[0].startswith("b.json:2: metadata.name: is 'É', expected")

    def test_unread_kinds_are_counted_in_one_warning(self) -> None:
        unread = "kind: {}\napiVersion: {}\n---\n"
        write(
            "a.yaml",
            unread.format("ConfigMap", "v1") * 2 + unread.format("Queue", "example.com/v1") + "kind: Odd\n",
        )
        listing = {"kind": "SecretList", "apiVersion": "v1", "items": [{}, {}, {}]}
        write("b.json", json.dumps(listing))
        manifests = load(["a.yaml", "b.json"])
        assert manifests.objects == []
        assert manifests.warnings == [
            "skipped 7 objects of unsupported kinds: 2 ConfigMap (v1), 1 Odd (no apiVersion), "
            "1 Queue (example.com/v1; Queue is read as scheduling.volcano.sh/v1beta1), 3 Secret (v1)"
        ]

    def test_what_is_no_object(self) -> None:
        write(
            "a.yaml",
            "- 1\n---\nhello\n---\nmetadata: {}\n---\nkind: [x]\n---\nkind: Node\n---\nkind: Node\napiVersion: 1\n",
        )
        write("b.json", "[]")
        assert printed("a.yaml", "b.json") == [
            "a.yaml:1: is a list, expected an object with a kind",
            "a.yaml:3: is 'hello', expected an object with a kind",
            "a.yaml:5: kind: is missing, expected the kind of object, for example Pod",
            "a.yaml:7: kind: is a list, expected the kind of object, for example Pod",
            "a.yaml:9: apiVersion: is missing, expected v1",
            "a.yaml:12: apiVersion: is the number 1, expected a version such as v1",
            "b.json:1: is a list, expected an object with a kind",
        ]


class TestFaults:
    def test_lines_in_yaml(self) -> None:
        write(
            "a.yaml",
            "# a pod\n"
            "apiVersion: v1\n"
            "kind: Pod\n"
            "metadata:\n"
            "  name: a\n"
            "  labels:\n"
            "    app: web\n"
            "    version: 2\n"
            "spec:\n"
            "  tolerations:\n"
            "  - key: a\n"
            "    operator: Sometimes\n"
            "  containers:\n"
            "  - name: c\n"
            "    resources:\n"
            "      requests:\n"
            "        cpu: 1K\n"
            "        nvidia.com/gpu: 2\n"
            "      limits: {nvidia.com/gpu: 1}\n"
            "  - image: x\n",
        )
        assert printed("a.yaml") == [
            "a.yaml:8: metadata.labels.version: is the number 2, expected a string: write it in quotes",
            "a.yaml:12: spec.tolerations[0].operator: is 'Sometimes', expected one of Equal, Exists",
            "a.yaml:17: spec.containers[0].resources.requests.cpu: "
            "invalid quantity '1K': unknown suffix 'K', expected k (1000) or Ki (1024)",
            "a.yaml:18: spec.containers[0].resources.requests[nvidia.com/gpu]: is 2, expected at most the limit of 1",
            "a.yaml:20: spec.containers[1].name: is missing, expected a string",
        ]

    def test_lines_in_json(self) -> None:
        write(
            "a.json",
            '{"apiVersion": "v1",\n'
            ' "items": [\n'
            '  {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}},\n'
            '  {"metadata":\n'
            '     {"name": "b"}, "spec": {"containers": [\n'
            '      {"name": "c", "image": "with \\" , [ { \\\\",\n'
            '       "resources": {"requests": {"cpu": 2,\n'
            '          "memory": "1K"}}}],\n'
            '     "priority": "high"}},\n'
            "  7\n"
            ' ], "kind": "PodList"}\n',
        )
        assert printed("a.json") == [
            "a.json:8: items[1].spec.containers[0].resources.requests.memory: "
            "invalid quantity '1K': unknown suffix 'K', expected k (1000) or Ki (1024)",
            "a.json:9: items[1].spec.priority: is 'high', expected a whole number that fits 32 bits",
            "a.json:10: items[2]: is the number 7, expected a mapping",
        ]

    def test_lines_through_anchors_and_merges(self) -> None:
        write(
            "a.yaml",
            "kind: List\n"
            "items:\n"
            "- apiVersion: v1\n"
            "  kind: Node\n"
            "  metadata: {name: a}\n"
            "  status: &s\n"
            "    capacity: &c\n"
            "      cpu: x\n"
            "- apiVersion: v1\n"
            "  kind: Node\n"
            "  metadata: {name: b}\n"
            "  status: *s\n"
            "- apiVersion: v1\n"
            "  kind: Node\n"
            "  metadata: {name: c}\n"
            "  status: {capacity: {<<: *c, memory: z}}\n",
        )
        assert [line.partition(": invalid")[0] for line in printed("a.yaml")] == [
            "a.yaml:8: items[0].status.capacity.cpu",
            "a.yaml:8: items[1].status.capacity.cpu",
            "a.yaml:8: items[2].status.capacity.cpu",
            "a.yaml:16: items[2].status.capacity.memory",
        ]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('{"kind": "Node",\n "metadata": {"name": "a",}}', "2: not JSON: "),
            ('{"kind": "Node",\n "metadata": {"name": "a"', "2: not JSON: expecting ',' delimiter"),
            ('{"kind": "Node"}\n}', "2: not JSON: expecting value"),
            ('{"kind": "Node",\n "a": NaN}', "2: not JSON: invalid character"),
            ("kind: Node", "1: not JSON: expecting value"),
            ('{"a":' * 100_000, "1: nested too deeply, expected an object as Kubernetes has them"),
            ('{"kind": "Node", "a": ' + "[" * 100_000 + "]" * 100_000 + "}", "1: nested too deeply"),
        ],
    )
    def test_what_is_not_json(self, text: str, expected: str) -> None:
        write("a.json", text)
        (line,) = printed("a.json")
        assert line.startswith(f"a.json:{expected}")

    def test_what_is_not_yaml(self) -> None:
        write("a.yaml", "kind: Node\n\tname: x\n")
        write("b.yaml", b"a: 1\nb: \xff\n")
        write("c.yaml", "[" * 100_000)
        write("d.yaml", "a: &a [1]\nb: [*b]\n")
        assert printed("a.yaml", "b.yaml", "c.yaml", "d.yaml") == [
            "a.yaml:2: not YAML: found a tab character that violates indentation",
            "b.yaml:2: byte 8 is not UTF-8, expected text in UTF-8",
            "c.yaml:1: nested deeper than 100 levels",
            "d.yaml:2: the alias *b has no anchor before it",
        ]

    def test_the_documents_before_a_broken_one_are_still_checked(self) -> None:
        write("a.yaml", NODE.format("A") + "---\na: [\n---\n" + NODE.format("b"))
        first, second = printed("a.yaml")
        assert first.startswith("a.yaml:4: metadata.name: is 'A', expected")
        assert second.startswith("a.yaml:7: not YAML: ")

    def test_a_key_that_stands_twice(self) -> None:
        write("a.yaml", NODE.format("a") + "metadata:\n  name: b\n")
        assert printed("a.yaml") == ["a.yaml:5: the key 'metadata' is here twice, first in line 3"]

    def test_an_object_that_is_there_twice(self) -> None:
        write("a.yaml", NODE.format("a"))
        write("b.json", '{"kind": "NodeList", "apiVersion": "v1",\n"items": [{"metadata": {"name": "a"}}]}')
        group = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: PodGroup\nmetadata: {{name: g{}}}\n---\n"
        write(
            "c.yaml",
            group.format("") + group.format(", namespace: other") + group.format(", namespace: default"),
        )
        assert printed("a.yaml", "b.json", "c.yaml") == [
            "b.json:2: items[0].metadata.name: Node a is already at a.yaml:4, expected each object once",
            "c.yaml:11: metadata.name: PodGroup default/g is already at c.yaml:3, expected each object once",
        ]

    def test_all_faults_of_a_run_up_to_fifty(self) -> None:
        for number in range(70):
            write(f"d/{number:02}.yaml", NODE.format(f"N{number}"))
        lines = printed("missing.yaml", "d")
        assert len(lines) == 51
        assert lines[0].startswith("missing.yaml: no such file")
        assert lines[1].startswith("d/00.yaml:4: metadata.name: is 'N0', expected")
        assert lines[-1] == "and 21 more"

    def test_the_error_is_one_that_the_command_line_knows(self) -> None:
        with pytest.raises(InputError) as caught:
            load(["missing.yaml"])
        assert isinstance(caught.value, ManifestError)
        assert caught.value.problems[0].source == "missing.yaml"


class TestAllowances:
    def test_null_is_absent(self) -> None:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "creationTimestamp": None, "labels": None, "annotations": {"a": None}},
            "spec": {"containers": [{"name": "c", "resources": None, "ports": None}], "tolerations": None},
            "status": None,
        }
        write("a.json", json.dumps(pod))
        write("b.yaml", yaml.safe_dump(pod).replace("name: a", "name: b"))
        first, second = load(["a.json", "b.yaml"]).objects
        assert first.metadata.annotations == second.metadata.annotations == {"a": ""}
        assert first.metadata.labels == {}

    def test_unknown_fields_are_ignored(self) -> None:
        assert names("-", stdin=NODE.format("a").encode() + b"mode: 0644\nspec: {podCIDR: 10.0.0.0/8}\n") == ["a"]

    def test_times_need_no_quotes(self) -> None:
        (node,) = load(
            ["-"], stdin=io.BytesIO(NODE.format("a\n  creationTimestamp: 2026-01-31T12:00:00Z").encode())
        ).objects
        assert node.metadata.creation_timestamp is not None
        assert node.metadata.creation_timestamp.isoformat() == "2026-01-31T12:00:00+00:00"

    def test_a_resource_class_without_a_version(self) -> None:
        write(
            "a.yaml",
            "kind: ResourceClass\n"
            "metadata:\n"
            "  name: nvidia.high.mem\n"
            "spec:\n"
            "  resourceSelector:\n"
            "    - matchExpressions:\n"
            '        - {key: "Kind", operator: "In", values: ["nvidia-gpu"]}\n'
            '        - {key: "memory", operator: "GtEq", values: ["30G"]}\n',
        )
        (resource_class,) = load(["a.yaml"]).objects
        assert isinstance(resource_class, ResourceClass)
        assert resource_class.spec.resource_selector[0].match_expressions[1].values == ("30G",)


class TestParseObject:
    def test_a_good_one(self) -> None:
        assert key(parse_object(yaml.safe_load(NODE.format("a")))) == ("Node", "", "a")

    def test_a_bad_one_names_where_it_came_from(self) -> None:
        with pytest.raises(ManifestError) as caught:
            parse_object({"kind": "Queue", "apiVersion": "scheduling.volcano.sh/v1beta1"}, where="event 7")
        assert str(caught.value) == "event 7: metadata.name: is missing, expected a name"

    @pytest.mark.parametrize("kind", ["ConfigMap", "NodeList"])
    def test_only_one_object_of_a_known_kind(self, kind: str) -> None:
        with pytest.raises(ManifestError) as caught:
            parse_object({"kind": kind, "apiVersion": "v1", "items": []})
        assert str(caught.value) == f"object: kind: is {kind} (v1), expected one object of a supported kind"

    def test_keys_that_are_not_text(self) -> None:
        node = yaml.safe_load(NODE.format("a\n  labels: {1: x}"))
        assert parse_object(node).metadata.labels == {"1": "x"}


def test_every_kind_of_the_design_is_read() -> None:
    assert {(version, kind.name) for kind in (*KINDS, *OTHER_FORMS) for version in kind.api_versions} == {
        *(("v1", name) for name in ("Node", "Pod", "ResourceQuota", "Namespace", "PersistentVolume")),
        ("v1", "PersistentVolumeClaim"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("storage.k8s.io/v1", "CSINode"),
        ("storage.k8s.io/v1", "CSIDriver"),
        ("storage.k8s.io/v1", "CSIStorageCapacity"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("policy/v1", "PodDisruptionBudget"),
        ("scheduling.volcano.sh/v1beta1", "Queue"),
        ("scheduling.volcano.sh/v1beta1", "PodGroup"),
        ("scheduling.k8s.io/v1beta1", "PodGroup"),
        ("scheduling.k8s.io/v1alpha2", "PodGroup"),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup"),
        ("topology.volcano.sh/v1alpha1", "HyperNode"),
        ("resource.k8s.io/v1", "ResourceSlice"),
        ("resource.k8s.io/v1beta2", "DeviceTaintRule"),
        ("resource.k8s.io/v1", "DeviceClass"),
        ("resource.k8s.io/v1", "ResourceClaim"),
        ("resource.k8s.io/v1", "ResourceClaimTemplate"),
        ("fairway.dev/v1alpha1", "ResourceClass"),
        ("fairway.dev/v1alpha1", "Reservation"),
        ("fairway.dev/v1alpha1", "EvictionRecord"),
        ("cluster.open-cluster-management.io/v1", "ManagedCluster"),
        ("cluster.open-cluster-management.io/v1beta2", "ManagedClusterSet"),
        ("cluster.open-cluster-management.io/v1beta1", "ManagedClusterSet"),
        ("cluster.open-cluster-management.io/v1beta2", "ManagedClusterSetBinding"),
        ("cluster.open-cluster-management.io/v1beta1", "ManagedClusterSetBinding"),
        ("cluster.open-cluster-management.io/v1alpha1", "ManagedClusterSet"),
        ("cluster.open-cluster-management.io/v1alpha1", "ManagedClusterSetBinding"),
        ("cluster.open-cluster-management.io/v1beta1", "Placement"),
        ("cluster.open-cluster-management.io/v1alpha1", "Placement"),
        ("cluster.open-cluster-management.io/v1beta1", "PlacementDecision"),
        ("cluster.open-cluster-management.io/v1alpha1", "PlacementDecision"),
        ("cluster.open-cluster-management.io/v1alpha1", "AddOnPlacementScore"),
    }


AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.sampled_from(["1", "500m", "2Gi", "0.5", 3, 1.5])
)
CONTAINERS = st.fixed_dictionaries({"resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS})})
PODS = st.fixed_dictionaries(
    {
        "containers": st.lists(CONTAINERS, min_size=1, max_size=3),
        "nodeName": st.sampled_from(["", "n1"]),
    },
    optional={
        "priority": st.integers(-5, 5) | st.none(),
        "hostNetwork": st.booleans(),
        "nodeSelector": st.dictionaries(st.sampled_from(["a", "b/c"]), st.sampled_from(["", "x", "1"])),
        "unknown": st.just({"deep": [1, {"x": None}]}),
    },
)


@settings(max_examples=examples(60))
@given(st.lists(PODS, max_size=4))
def test_json_and_yaml_give_the_same_objects(specs: list[dict[str, Any]]) -> None:
    pods = []
    for number, spec in enumerate(specs):
        for index, container in enumerate(spec["containers"]):
            container["name"] = f"c{index}"
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec})
    listing = {"kind": "List", "apiVersion": "v1", "items": pods}
    texts = (json.dumps(listing), yaml.safe_dump(listing), json.dumps({**listing, "kind": "PodList"}))
    straight, plain, typed = (load(["-"], stdin=io.BytesIO(text.encode())).objects for text in texts)
    assert straight == plain == typed
    assert straight == [parse_object(pod) for pod in pods]
