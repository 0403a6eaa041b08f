"""Alerts fire when they should and not before, about metrics that there are, with a page that says what to do."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

pytestmark = pytest.mark.manifests

ROOT = Path(__file__).resolve().parents[3]
MONITORING = ROOT / "k8s" / "components" / "monitoring"
SCENES = Path(__file__).with_name("alerts.yaml")
GROUPS: list[dict[str, Any]] = yaml.safe_load((MONITORING / "alerts.yaml").read_text(encoding="utf-8"))["spec"][
    "groups"
]
RULES: list[dict[str, Any]] = [rule for group in GROUPS for rule in group["rules"]]
ALERTS = [rule for rule in RULES if "alert" in rule]
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))

OTHERS = {"up", "process_start_time_seconds", "process_cpu_seconds", "process_resident_memory_bytes"}
"""Metrics of Prometheus itself, and of the process that is scraped."""
_INSTRUMENT = re.compile(r'"((?:feed|rpc|http|messaging)\.[a-z_.]+)"')
_METRIC = re.compile(r"(?<![:\w])((?:feed|rpc|http|messaging|process)_\w+|up)(?=[{\[])")
_SUFFIXES = re.compile(r"_(total|bucket|count|sum)$")


def promtool(*arguments: str, directory: Path) -> None:
    """Run it, or fail with what it says."""
    assert shutil.which("promtool"), (
        "promtool is not installed: tests/k8s/install installs it (Debian's package prometheus)"
    )
    done = subprocess.run(["promtool", *arguments], cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The rules as Prometheus itself reads them (JSON is YAML), in a directory of their own."""
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": GROUPS}), encoding="utf-8")
    return tmp_path


def test_prometheus_reads_the_rules(rules: Path) -> None:
    promtool("check", "rules", "rules.yaml", directory=rules)


def test_alerts_fire_when_they_should_and_not_before(rules: Path) -> None:
    shutil.copy(SCENES, rules)
    promtool("test", "rules", SCENES.name, directory=rules)


def test_every_alert_has_a_scene_in_which_it_fires() -> None:
    text = SCENES.read_text(encoding="utf-8")
    assert [alert["alert"] for alert in ALERTS if alert["alert"] not in text] == []


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_says_how_urgent_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning"}
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {anchor_of(heading) for heading in headings}


def anchor_of(heading: str) -> str:
    """The name by which GitHub and GitLab link to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def expressions() -> Iterator[str]:
    """All that is asked of Prometheus."""
    yield from (rule["expr"] for rule in RULES)
    yield from (target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"])


def told() -> set[str]:
    """What our processes tell, by Prometheus's names, without their suffixes."""
    sources = [path for part in ("packages", "services", "gateway") for path in (ROOT / part).rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources if "tests" not in path.parts)
    names = {name.replace(".", "_") for name in cast("list[str]", _INSTRUMENT.findall(text))}
    return {*OTHERS, *names, *(f"{name}_seconds" for name in names)}


def test_rules_and_dashboard_ask_for_metrics_that_there_are() -> None:
    asked = {_SUFFIXES.sub("", name) for expression in expressions() for name in _METRIC.findall(expression)}
    assert len(asked) > 12
    assert asked - told() == set()


def test_panels_of_the_dashboard_do_not_overlap() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in DASHBOARD["panels"]})
