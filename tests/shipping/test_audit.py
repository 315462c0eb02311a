"""`make audit`: licences, known vulnerabilities, and a bill of materials of what is shipped."""

import json
import re
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tools import audit, locked, sbom
from tools.locked import LockedPackage

RULES = tomllib.loads(audit.RULES.read_text())
PACKAGES = [*locked.python_packages(audit.PRODUCTION, RULES["licences"]), *locked.page_packages()]


def package(name: str = "a", version: str = "1.0", licence: str = "MIT") -> LockedPackage:
    return LockedPackage("pypi", name, version, (("SHA-256", "0" * 64),), licence)


# -- licences ------------------------------------------------------------------------------------------------------


def test_all_licences_of_what_is_shipped_are_allowed() -> None:
    assert audit.refused_licences(PACKAGES, set(RULES["allowed"])) == []
    assert {one.ecosystem for one in PACKAGES} == {"pypi", "npm"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND Apache-2.0", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("unknown", False),
        ("", False),
    ],
)
def test_a_licence_is_allowed_by_the_list_only(expression: str, expected: bool) -> None:
    assert audit.is_allowed(expression, {"MIT", "Apache-2.0"}) is expected


def test_a_package_with_another_licence_is_refused_by_name() -> None:
    (line,) = audit.refused_licences([package(), package("b", licence="GPL-3.0-only")], {"MIT"})
    assert line == "b 1.0: licence 'GPL-3.0-only' is not in audit.toml"


# -- vulnerabilities -----------------------------------------------------------------------------------------------


def lookup(found: dict[str, list[str] | None]) -> audit.Lookup:
    return lambda name, version: found.get(name)


def test_a_vulnerable_package_is_named_and_one_without_data_is_not_called_safe() -> None:
    source = lookup({"pycrypto": ["X"], "a": ["CVE-1"], "b": []})
    assert audit.vulnerabilities([package("a"), package("b"), package("c")], source) == (
        ["a 1.0: CVE-1"],
        ["c 1.0: not checked: no data"],
    )


@pytest.mark.parametrize("known", [None, []])
def test_a_source_without_data_checks_nothing(known: list[str] | None) -> None:
    """A mirror of PyPI may answer with empty lists for everything."""
    found, unchecked = audit.vulnerabilities([package("a")], lookup({"pycrypto": known, "a": []}))
    assert found == []
    assert unchecked == ["1 Python packages: not checked: no data (the source knows nothing of pycrypto)"]


def test_an_export_of_osv_is_read(tmp_path: Path) -> None:
    ranges = [{"type": "ECOSYSTEM", "events": [{"introduced": "1.2"}, {"fixed": "1.5"}, {"introduced": "2"}]}]
    documents: list[dict[str, Any]] = [
        {"id": "A", "affected": [{"package": {"ecosystem": "PyPI", "name": "Some.Name"}, "ranges": ranges}]},
        {"id": "B", "affected": [{"package": {"ecosystem": "PyPI", "name": "some-name"}, "versions": ["1.6"]}]},
        {"id": "C", "withdrawn": "2020", "affected": [{"package": {"ecosystem": "PyPI", "name": "some-name"}}]},
        {"id": "D", "affected": [{"package": {"ecosystem": "npm", "name": "some-name"}, "versions": ["1.6"]}]},
    ]
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for document in documents:
            archive.writestr(f"{document['id']}.json", json.dumps(document))
    find = audit.from_database(tmp_path / "all.zip")
    versions = ("1.1", "1.2", "1.4.9", "1.5", "1.6", "2.0.1")
    assert [find("some_name", version) for version in versions] == [[], ["A"], ["A"], [], ["B"], ["A"]]


# -- the bill of materials -----------------------------------------------------------------------------------------


def test_the_bill_names_everything_that_is_shipped_with_hashes_and_licences(tmp_path: Path) -> None:
    sbom.write(PACKAGES, tmp_path / "bill.json")
    bill = json.loads((tmp_path / "bill.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", bill["serialNumber"])
    parts = {part["name"]: part for part in bill["components"]}
    assert parts.keys() == {*locked.pinned(audit.PRODUCTION), "preact", "uplot"}
    lengths = {"SHA-256": 64, "SHA-512": 128}
    for part in parts.values():
        assert part["hashes"]
        assert all(re.fullmatch(f"[0-9a-f]{{{lengths[one['alg']]}}}", one["content"]) for one in part["hashes"])
        assert re.fullmatch(r"pkg:(pypi|npm)/[\w.-]+@[\w.]+", part["purl"])
        (licence,) = part["licenses"]
        assert licence.get("expression") or licence["license"]["id"]
    references = [part["bom-ref"] for part in [bill["metadata"]["component"], *bill["components"]]]
    assert len(set(references)) == len(references)
    assert sorted(one["ref"] for one in bill["dependencies"]) == sorted(references)
    assert {name for one in bill["dependencies"] for name in one["dependsOn"]} <= set(references)
    needs = {one["ref"].split("/")[1].split("@")[0]: one["dependsOn"] for one in bill["dependencies"]}
    assert any("anyio" in name for name in needs["starlette"])


def test_the_same_locks_give_the_same_bill() -> None:
    assert sbom.bill(PACKAGES) == sbom.bill(list(PACKAGES))
    assert sbom.bill(PACKAGES[1:])["serialNumber"] != sbom.bill(PACKAGES)["serialNumber"]


def test_the_bill_is_valid_by_the_official_schema() -> None:
    """Where the library that has the schema is installed; it is not part of the development lock."""
    schema = pytest.importorskip("cyclonedx.schema")
    validation = pytest.importorskip("cyclonedx.validation.json")
    validator = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert validator.validate_str(json.dumps(sbom.bill(PACKAGES))) is None
