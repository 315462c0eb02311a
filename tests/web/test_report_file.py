"""The report in one file: complete, closed to the network, and safe whatever jobs and tenants are called."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from fairway.app.view.models.common import SeriesLine, TimeSeries
from fairway.app.view.models.history import TimelineNode, TimelineSpan
from fairway.app.view.models.runs import Measure, ReportView, RunNotice, RunView
from fairway.web.report_file import COMPRESSED_FROM, MAX_DATA, NOT_BUILT, report_html
from support.cli import invoke
from support.reports import SCRIPT, ReportReader, embedded, write_page

HOSTILE = "</script><script>alert(1)</script><!-- & ' \" \u2028 &lt;"
SCENARIO = """
name: "{name}"
cluster: {{nodes: 1 x {{cpu: 4}}}}
workload: {{jobs: [{{name: a, namespace: x, count: 3, every: 1s, request: {{cpu: 2}}, run: 60s}}]}}
"""


def view(name: str = "team/job", *, spans: int = 1) -> ReportView:
    empty = TimeSeries(title="", unit="share", times=[], lines=[])
    rows = [TimelineSpan("running", name, name, 1, float(index), float(index + 1)) for index in range(spans)]
    run = RunView(
        label="",
        policy=name,
        seed=0,
        start=0.0,
        end=1.0,
        notices=[RunNotice("warning", name)],
        measures=[Measure(name, "1", name)],
        waits=[],
        utilisation=TimeSeries(title=name, unit="share", times=[0.0, 1.0], lines=[SeriesLine(name, [0.0, 1.0])]),
        queues=empty,
        namespaces=[],
        more_namespaces=0,
        waiting=empty,
        fragmentation=empty,
        evictions=empty,
        reservations=[],
        timeline=[TimelineNode(name, "", rows)],
        timeline_note="",
        fleet=None,
    )
    return ReportView(name, "", "fairway", [], "", [], [run], None)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return write_page(tmp_path / "page")


def written(view: ReportView, page: Path) -> Path:
    path = page.parent / "report.html"
    path.write_bytes(report_html(view, page))
    return path


def test_names_cannot_end_the_data_early(page: Path) -> None:
    """A browser ends a script at the first `</script`, wherever it stands."""
    path = written(view(HOSTILE), page)
    assert embedded(path) == msgspec.to_builtins(view(HOSTILE))
    text = path.read_text()
    assert text.count("</script>") == 2
    assert "<!--" not in text
    assert f"<title>{HOSTILE.split('<')[0]}&lt;/script&gt;" in text


def test_a_script_that_names_its_own_end_is_kept_whole(page: Path) -> None:
    reader = ReportReader(written(view(), page).read_text())
    assert reader.block("script", "module") == SCRIPT.replace("</script", "<\\/script")


def test_the_document_asks_for_nothing_from_elsewhere(page: Path) -> None:
    text = written(view(), page).read_text()
    reader = ReportReader(text)
    addresses = [value for _, name, value in reader.attributes if name in ("src", "href")]
    assert all(address and address.startswith("data:") for address in addresses)
    policy = next(value for _, name, value in reader.attributes if name == "content" and "default-src" in (value or ""))
    assert policy is not None
    assert policy.startswith("default-src 'none'; img-src data:; ")
    for kind, tag in (("script-src", "module"), ("style-src", None)):
        body = reader.block("script", "module") if tag else reader.block("style")
        digest = b64encode(sha256(body.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy


@pytest.mark.parametrize(("spans", "kind"), [(1, "application/json"), (2000, "application/gzip")])
def test_a_large_report_is_compressed(page: Path, spans: int, kind: str) -> None:
    big = view("t/" + "j" * 40, spans=spans)
    path = written(big, page)
    assert ("script", "type", kind) in ReportReader(path.read_text()).attributes
    assert embedded(path) == msgspec.to_builtins(big)
    assert (len(msgspec.json.encode(big)) >= COMPRESSED_FROM) == (kind == "application/gzip")
    assert path.read_bytes() == report_html(big, page)


def test_what_is_too_large_leaves_the_timeline_out_and_says_so(page: Path) -> None:
    path = written(view("x" * 5000, spans=2000), page)
    run = embedded(path)["runs"][0]
    assert run["timeline"] == []
    assert "too large" in run["timelineNote"]
    assert len(msgspec.json.encode(embedded(path))) < MAX_DATA


def test_a_scenario_with_a_hostile_name_is_a_report_of_that_name(built_page: Path, tmp_path: Path) -> None:
    name = "</script><b>"
    (tmp_path / "s.yaml").write_text(SCENARIO.format(name=name))
    assert invoke("simulate", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "out")).code == 0
    path = tmp_path / "out" / "report.html"
    assert embedded(path)["title"] == name
    assert "b" not in ReportReader(path.read_text()).tags


def test_without_a_built_page_the_data_is_written_and_the_command_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.web.report_file.PAGE", tmp_path / "none")
    (tmp_path / "s.yaml").write_text(SCENARIO.format(name="s"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.html").write_text("an earlier run")
    result = invoke("simulate", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "out"))
    assert result.code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["jobs.csv", "report.json", "speed.json"]
    assert NOT_BUILT in re.sub(r"\s+", " ", result.err)
    assert "python tools/build_page.py" in NOT_BUILT
    policies = ("--policy", "default", "--policy", "default", "--workers", "1")
    result = invoke("diff", str(tmp_path / "s.yaml"), *policies, "--out", str(tmp_path / "diff"))
    assert result.code == 0
    assert [path.name for path in (tmp_path / "diff").iterdir()] == ["diff.json"]
    assert NOT_BUILT in re.sub(r"\s+", " ", result.err)
