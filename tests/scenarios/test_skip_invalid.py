"""`--skip-invalid`: an object that fails validation is set aside with its error, the rest is decided, exit status 1."""

import json

import pytest

from support import objects as make
from support.cli import invoke, write

NOW = "2026-01-02T00:00:00Z"


def bad_pod(name="bad"):
    pod = make.manifest(make.pod(name, cpu=1))
    pod["spec"]["tolerations"] = [{"key": "a", "operator": "Sometimes"}]
    return pod


def bad_queue(name="zero"):
    return make.manifest(make.queue(name)) | {"spec": {"weight": 0}}


GOOD = [make.node("n1", cpu=4), make.pod("good", cpu=1)]


def run(objects, tmp_path, *arguments, command="plan"):
    return invoke(command, *arguments, "-f", str(write(objects, tmp_path)), "--now", NOW, "-o", "json")


@pytest.mark.parametrize("command", ["plan", "queues"])
def test_without_the_flag_all_is_refused_and_the_message_names_it(command, tmp_path):
    result = run([*GOOD, bad_pod(), bad_queue()], tmp_path, command=command)
    assert (result.code, result.out) == (2, "")
    assert "spec.tolerations[0].operator" in result.err
    assert "spec.weight" in result.err
    assert "--skip-invalid" in result.err


def test_with_the_flag_the_rest_is_decided_and_the_status_is_1(tmp_path):
    result = run([*GOOD, bad_pod(), bad_queue()], tmp_path, "--skip-invalid")
    assert result.code == 1, result.err
    document = json.loads(result.out)
    assert [entry["pod"] for entry in document["bindings"]] == ["default/good"]
    assert "spec.tolerations[0].operator" in result.err
    assert "spec.weight" in result.err
    assert "2 invalid objects set aside" in result.err


def test_with_nothing_to_set_aside_the_flag_changes_nothing(tmp_path):
    with_flag, without = run(GOOD, tmp_path, "--skip-invalid"), run(GOOD, tmp_path)
    assert with_flag == without
    assert without.code == 0


def test_a_job_of_a_queue_that_was_set_aside_waits(tmp_path):
    job = make.pod("p", queue="zero", cpu=1)
    result = run([*GOOD, bad_queue(), job], tmp_path, "--skip-invalid")
    [waits] = json.loads(result.out)["pending"]
    assert (waits["job"], waits["reason"]) == ("default/p", "QueueNotFound")


def test_an_object_that_is_there_twice_is_read_once(tmp_path):
    result = run([*GOOD, make.pod("good", cpu=100)], tmp_path, "--skip-invalid")
    assert result.code == 1
    assert [entry["pod"] for entry in json.loads(result.out)["bindings"]] == ["default/good"]


@pytest.mark.parametrize("flag", [(), ("--skip-invalid",)])
@pytest.mark.parametrize("objects", [[], [bad_pod()], [{"apiVersion": "v1", "kind": "ConfigMap"}]])
def test_input_without_an_object_that_can_be_read_is_refused(objects, flag, tmp_path):
    result = run(objects, tmp_path, *flag)
    assert (result.code, result.out) == (2, "")
    assert result.err


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: Pod\nkind: Pod\nmetadata: {name: twice}\n",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: [}\n",
        "just text\n",
        "kind: {}\n",
    ],
)
def test_a_document_that_is_no_object_is_set_aside_with_its_place(text, tmp_path):
    good = write(GOOD, tmp_path)
    bad = tmp_path / "bad.yaml"
    bad.write_text(text)
    result = invoke("plan", "-f", str(good), "-f", str(bad), "--skip-invalid", "--now", NOW, "-o", "json")
    assert result.code == 1, result.err
    assert "bad.yaml:" in result.err
    document = json.loads(result.out)
    assert [entry["pod"] for entry in document["bindings"]] == ["default/good"]
    assert document["pending"] == []


def test_a_file_that_is_not_there_is_an_error_with_the_flag_too(tmp_path):
    result = invoke("plan", "-f", str(write(GOOD, tmp_path)), "-f", str(tmp_path / "none.yaml"), "--skip-invalid")
    assert result.code == 2
    assert "none.yaml" in result.err


def test_a_class_that_could_not_be_created_is_set_aside(tmp_path):
    bad = {
        "apiVersion": "fairway.dev/v1alpha1",
        "kind": "ResourceClass",
        "metadata": {"name": "bad"},
        "spec": {"includes": [{"class": "bad"}]},
    }
    assert run([*GOOD, bad], tmp_path).code == 2
    result = run([*GOOD, bad], tmp_path, "--skip-invalid")
    assert result.code == 1, result.err
    assert [entry["pod"] for entry in json.loads(result.out)["bindings"]] == ["default/good"]


def test_explain_sets_aside(tmp_path):
    file = str(write([*GOOD, make.pod("big", cpu=100), bad_pod()], tmp_path))
    assert invoke("explain", "big", "-f", file, "--now", NOW).code == 2
    result = invoke("explain", "big", "-f", file, "--now", NOW, "--skip-invalid")
    assert result.code == 1, result.err
    assert "big" in result.out


def test_explain_takes_the_flag_only_with_files():
    result = invoke("explain", "big", "--skip-invalid")
    assert result.code == 2
    assert "-f" in result.err


@pytest.mark.parametrize("command", [("classes",), ("classes", "export")])
def test_classes_set_aside(command, tmp_path):
    file = str(write([*GOOD, bad_pod()], tmp_path))
    assert invoke(*command, "-f", file).code == 2
    assert invoke(*command, "-f", file, "--skip-invalid").code == 1


def test_place_sets_aside(tmp_path):
    cluster = {
        "apiVersion": "cluster.open-cluster-management.io/v1",
        "kind": "ManagedCluster",
        "metadata": {"name": "c1"},
    }
    file = str(write([cluster, bad_pod()], tmp_path))
    refused = invoke("place", "-f", file)
    assert refused.code == 2
    assert "--skip-invalid" in refused.err
    assert invoke("place", "-f", file, "--skip-invalid").code == 1


def test_simulate_sets_aside(tmp_path):
    write([*GOOD, bad_queue()], tmp_path)
    write([bad_pod(), make.pod("late", cpu=1)], tmp_path, "jobs.json")
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        "name: s\ncluster: {manifests: [cluster.json]}\nworkload: {manifests: [{file: jobs.json, run: 60}]}\n"
    )
    refused = invoke("simulate", str(scenario))
    assert refused.code == 2
    assert "--skip-invalid" in refused.err
    result = invoke("simulate", str(scenario), "--skip-invalid", "-o", "json")
    assert result.code == 1, result.err
    assert "2 invalid objects set aside" in result.err
    assert json.loads(result.out)


def test_a_pod_on_a_node_that_is_set_aside_is_said_to_be_uncounted_there(tmp_path):
    pod = make.manifest(make.pod("bad", node="n1", cpu=1)) | {}
    pod["spec"]["tolerations"] = [{"key": "a", "operator": "Sometimes"}]
    result = run([*GOOD, pod], tmp_path, "--skip-invalid")
    assert "spec.nodeName: is 'n1': the resources of the pod are not counted" in result.err
