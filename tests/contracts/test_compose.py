"""docker-compose.yml: its services, their commands, what they publish, and whether Debian's docker-compose accepts it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes with transformers, without stubs
from typer.main import get_command

from pipeline.settings import rows
from workers.cli import app

ROOT = Path(__file__).resolve().parents[2]
OURS = {
    "migrate": ["migrate"],
    "listener": ["listener"],
    "worker-encode": ["worker", "encode"],
    "worker-draft": ["worker", "draft"],
    "worker-io": ["worker", "io"],
    "beat": ["beat"],
    "web": ["web"],
}
THEIRS = {"postgres", "redis", "sglang"}
PUBLISHED = {"listener", "web"}
CHECKED = {"postgres", "redis", "listener", "web", "sglang"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file with its anchors resolved."""
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    return loaded


def test_debians_docker_compose_accepts_the_file() -> None:
    binary = shutil.which("docker-compose")
    if binary is None:
        message = "docker-compose is not installed (Debian: apt-get install docker-compose); the other tests of this file still hold"
        if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
            pytest.fail(message)
        pytest.skip(message)
    env = os.environ | {"POSTGRES_PASSWORD": "secret1", "REDIS_PASSWORD": "secret2"}
    for profile in ((), ("--profile", "gpu")):
        ran = subprocess.run(
            [binary, "-f", "docker-compose.yml", *profile, "config"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert ran.returncode == 0, ran.stderr
        services = yaml.safe_load(ran.stdout)["services"]
        assert set(OURS) <= set(services)
        assert services["beat"]["environment"]["CTREPORT_DATABASE_URL"] == "postgresql://ctreport:secret1@postgres:5432/ctreport"


def test_every_service_is_there(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == set(OURS) | THEIRS


@pytest.mark.parametrize(("service", "command"), OURS.items())
def test_each_process_runs_a_command_that_ctreport_has(compose: dict[str, Any], service: str, command: list[str]) -> None:
    assert compose["services"][service]["command"] == command
    known: Any = get_command(app)
    for word in command:
        assert word in known.commands, f"ctreport has no command {' '.join(command)}"
        known = known.commands[word]


def test_only_listener_and_web_are_published_and_on_loopback_by_default(compose: dict[str, Any]) -> None:
    ports = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}
    assert set(ports) == PUBLISHED
    assert all(port.startswith("${CTREPORT_PUBLISH:-127.0.0.1}:") for listed in ports.values() for port in listed)


def test_database_and_broker_are_on_the_internal_network_alone(compose: dict[str, Any]) -> None:
    assert compose["networks"]["internal"]["internal"] is True
    inside = {name for name, service in compose["services"].items() if service["networks"] == ["internal"]}
    assert inside == (set(OURS) | THEIRS) - PUBLISHED


def test_services_that_can_be_asked_have_a_health_check_and_all_start_again(compose: dict[str, Any]) -> None:
    assert {name for name, service in compose["services"].items() if "healthcheck" in service} == CHECKED
    restarts = {name: service["restart"] for name, service in compose["services"].items()}
    assert restarts.pop("migrate") == "on-failure"
    assert set(restarts.values()) == {"unless-stopped"}


def test_processes_start_after_the_migration(compose: dict[str, Any]) -> None:
    for name in set(OURS) - {"migrate"}:
        assert compose["services"][name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}, name
    assert compose["services"]["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}


def test_every_setting_reaches_the_containers(compose: dict[str, Any]) -> None:
    reaching = set(compose["services"]["migrate"]["environment"])
    missing = [name for name, _, _ in rows() if name not in reaching]
    assert not missing, f"add to x-environment of docker-compose.yml: {missing}"


def test_our_containers_are_tied_down(compose: dict[str, Any]) -> None:
    for name in OURS:
        service = compose["services"][name]
        assert (service["read_only"], service["cap_drop"], service["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"]), name


def test_the_file_and_its_example_hold_no_password() -> None:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    secrets = re.findall(r"\$\{(\w*(?:PASSWORD|KEY)\w*)(:-[^}]*)?\}", text)
    assert {name for name, _ in secrets} == {"POSTGRES_PASSWORD", "REDIS_PASSWORD", "SGLANG_API_KEY"}
    assert {default for _, default in secrets} == {":-"}


def test_the_image_runs_as_a_normal_user_from_a_second_stage() -> None:
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert len(re.findall(r"^FROM ", text, re.MULTILINE)) == 2
    assert re.search(r"^USER [1-9]\d*$", text, re.MULTILINE)
    assert "ARG TORCH=" in text
