"""What the embedded stack runs: its settings, the environment of its processes, and `ctreport up`."""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from pipeline.metrics import SHARED_FOLDER
from pipeline.settings import Settings
from workers import wiring, wiring_drafts
from workers.local import ProcessSpec, Stack, StackInfo, is_listening

CTREPORT = (sys.executable, "-m", "workers")
# One study on one desk should not wait for a hospital's pauses.
QUICK = {"CTREPORT_ASSEMBLE_QUIET_S": "2", "CTREPORT_WORK_SWEEP_S": "1"}
# The listener first, so that nothing arrives that nobody works on; then who rings, then who works.
STOP_ORDER = {"listener": 0, "web": 0, "beat": 1, "worker-io": 2, "worker-encode": 2, "worker-draft": 2}


def as_they_are(specs: Sequence[ProcessSpec]) -> Sequence[ProcessSpec]:
    """The processes of a stack that nobody changes."""
    return specs


def run_stack(
    config: Settings,
    listener_port: int | None,
    web_port: int | None,
    on_ready: Callable[[StackInfo], None],
    changed: Callable[[Sequence[ProcessSpec]], Sequence[ProcessSpec]] = as_they_are,
) -> None:
    """Run everything on the data folder until a signal; `on_ready` is told once all processes are up. `changed`: what a trial makes of them."""

    def migrate(database_url: str) -> None:
        _secret(config.site.data / wiring_drafts.API_TOKEN, config.web.token)
        own = config.store.url is None  # an external database keeps the reader password that its site set
        wiring.migrate(database_url, _reader_password(config) if own else None)

    def processes(info: StackInfo) -> Sequence[ProcessSpec]:
        return changed(specs(config, info, _fresh_folder(info.data / "run" / "metrics")))

    stack = Stack(
        config.site.data,
        migrate=migrate,
        specs=processes,
        database_url=config.store.url.get_secret_value() if config.store.url else None,
        redis_url=config.broker_url.get_secret_value() if config.broker_url else None,
        ports={
            "listener": config.listener.port if listener_port is None else listener_port,
            "web": config.web.port if web_port is None else web_port,
        },
    )
    with contextlib.suppress(SystemExit), stack:  # `ctreport down` may come between ready and wait
        on_ready(stack.info)
        stack.wait()


def specs(config: Settings, info: StackInfo, shared: Path) -> Sequence[ProcessSpec]:
    """One process per kind of work, all on the same services."""
    env = environment(config, info, shared)

    def process(name: str, *command: str, ready: Callable[[], bool] | None = None, grace_s: float = 30.0) -> ProcessSpec:
        return ProcessSpec(name, (*CTREPORT, *command), env, ready, STOP_ORDER[name], grace_s)

    return [
        process("listener", "listener", ready=lambda: is_listening(info.ports["listener"])),
        process("worker-encode", "worker", "encode"),
        process("worker-draft", "worker", "draft"),
        process("worker-io", "worker", "io"),
        process("beat", "beat", grace_s=5.0),
        process("web", "web", ready=lambda: is_listening(info.ports["web"]), grace_s=5.0),
    ]


def environment(config: Settings, info: StackInfo, shared: Path) -> Mapping[str, str]:
    """What the processes need beside the caller's environment and what Stack adds to it (data folder and service URLs).

    What the caller set stays; an embedded stack does not dawdle.
    """
    quick = {name: value for name, value in QUICK.items() if info.embedded and name not in os.environ}
    return quick | {
        "CTREPORT_MODE": config.mode,
        "CTREPORT_LISTENER_PORT": str(info.ports["listener"]),
        "CTREPORT_WEB_PORT": str(info.ports["web"]),
        SHARED_FOLDER: str(shared),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def reader_url(info: StackInfo) -> str:
    """URL of the read-only role; only for the person at this machine, never logged."""
    parts, secret = urlsplit(info.database_url), info.data / "reader_password"
    password = secret.read_text(encoding="ascii").strip() if secret.exists() else "PASSWORD"
    return f"postgresql://ctreport_reader:{password}@{parts.hostname}:{parts.port}{parts.path}"


def summary(info: StackInfo) -> str:
    """What a person sees once the stack is up."""
    return (
        f"ready: C-STORE 127.0.0.1:{info.ports['listener']} (AE CTREPORT), page http://127.0.0.1:{info.ports['web']}/, "
        f"data {info.data}, process {info.pid}; Ctrl-C stops it"
    )


def as_json(info: StackInfo) -> dict[str, object]:
    """Ports, URLs and pids of a running stack, as `up --json` prints them for other programs of the same user."""
    return {
        "pid": info.pid,
        "data": str(info.data),
        "ports": dict(info.ports),
        "database_url": info.database_url,
        "redis_url": info.redis_url,
        "reader_url": reader_url(info),
        "api_url": f"http://127.0.0.1:{info.ports['web']}/api/v1",
        "api_token_file": str(info.data / wiring_drafts.API_TOKEN),
        "pids": {part.name: part.pid for part in info.parts},
    }


def _reader_password(config: Settings) -> str:
    """The reader role's password of this data folder."""
    return _secret(config.site.data / "reader_password", config.store.reader_password)


def _secret(path: Path, given: SecretStr | None) -> str:
    """A secret of this data folder, as given or made at the first start, mode 0600. Runs under the stack's lock."""
    if given is not None:
        _write_secret(path, given.get_secret_value())
    elif not path.exists():
        _write_secret(path, secrets.token_urlsafe(24))
    return path.read_text(encoding="ascii").strip()


def _write_secret(path: Path, secret: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(secret + "\n")


def _fresh_folder(folder: Path) -> Path:
    """An empty folder: metric files of processes that are gone would count twice."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.db"):
        old.unlink()
    return folder
