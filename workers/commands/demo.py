"""`ctreport demo`: one study through the whole pipeline on an embedded stack, a line per step, then the draft."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.errors import PipelineError, ServiceUnavailable
from pipeline.settings import settings
from workers import wiring
from workers.commands.studies import send_with_bar
from workers.embedded.lock import LOCK_FILE, wait_until_free
from workers.embedded.processes import Child
from workers.local import StackInfo, is_listening, read_stack, stop_stack, wait_for_stack
from workers.stack import CTREPORT, reader_url

app = typer.Typer()
FOLDER = Path(".ctreport/demo")
SEED = 17
DEADLINE_S = 180.0
# what belongs to a site: a demo leaves its database, broker, archive, models and deliveries alone
SITE = tuple(f"CTREPORT_{room}_" for room in ("DATABASE", "REDIS", "ARCHIVE", "DELIVER", "ENCODER", "DRAFT", "LISTENER", "WEB", "PHANTOM"))
# audit action → what the line says of it
STEPS: Mapping[str, tuple[str, Callable[[Mapping[str, str]], str]]] = {
    "assemble": ("组检", lambda d: f"选中 {d['images']} 层，{d['refused']} 个序列未选"),
    "encode": ("编码", lambda d: f"{d['images']} 层 → {d['tokens']} 个影像特征，{d['candidates']} 个候选区"),
    "draft": ("生成", lambda d: f"{d['tokens']} 个词元，{d['verify_count']} 次验证（MTP）"),
    "check": ("质检", lambda d: f"规则版本 {d['rules_version']}，{d['hits']} 条提示"),
    "persist": ("入库", lambda d: f"1 份草稿，{d['findings']} 条所见"),
}
ENDS = frozenset({"persist", "failed", "unsupported"})


@app.command()
def demo(
    dicom: Annotated[Path | None, typer.Option(help="folder of a real CT study; default: a phantom with known findings", exists=True)] = None,
    keep: Annotated[bool, typer.Option("--keep", help="leave the stack running")] = False,
) -> None:
    """Send one study through everything and show its draft. Leaves nothing running unless --keep."""
    began = time.monotonic()
    with _stack(FOLDER, keep) as info:
        folder = dicom or _phantom(FOLDER / "phantom")
        study_uid = _study_uid(folder)
        sent = time.monotonic()
        result = send_with_bar([folder], "127.0.0.1", info.ports["listener"], settings().listener.aet)
        _line("收图", f"{result.succeeded + result.warned} 幅入档，{len(result.failed)} 幅失败", time.monotonic() - sent)
        reason = _follow(study_uid)
        if reason is None:
            _show(study_uid)
            if dicom is None:
                typer.echo(f"体模真值（生成时已知，供对照）：{_truth(folder)}")
        _farewell(info, study_uid, keep, time.monotonic() - began)
    raise typer.Exit(0 if reason is None else 1)


@contextmanager
def _stack(folder: Path, keep: bool) -> Iterator[StackInfo]:
    """A stack on `folder`: the one that an earlier --keep left there, else a new one on fresh data. Never a site's own services."""
    for name in [name for name in os.environ if name.startswith(SITE)]:
        del os.environ[name]
    wiring.data_folder(folder)
    info = _running(folder) or _start(folder, keep)
    try:
        yield info
    finally:
        if not keep:
            wiring.close()
            stop_stack(folder, timeout_s=60.0)


def _running(folder: Path) -> StackInfo | None:
    """A stack that still takes images; one that is on its way down does not count."""
    info = read_stack(folder)
    return info if info is not None and is_listening(info.ports["listener"]) else None


def _start(folder: Path, keep: bool) -> StackInfo:
    """Start `ctreport up` in the background: it ends with this process unless it is to be kept."""
    folder.mkdir(parents=True, exist_ok=True)
    wait_until_free(folder, DEADLINE_S)
    for old in folder.iterdir():
        if old.name != LOCK_FILE:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    argv = (*CTREPORT, "up", "--data", str(folder), "--port", "0", "--web-port", "0")
    log_file, env = folder / "up.log", os.environ | {"CTREPORT_MODE": "demo"}
    if keep:
        with log_file.open("wb") as output:
            up = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True)
        return _wait_ready(folder, log_file, lambda: up.poll() is None)
    return _wait_ready(folder, log_file, Child(argv, log_file, env, death_signal=signal.SIGTERM).alive)


def _wait_ready(folder: Path, log_file: Path, alive: Callable[[], bool]) -> StackInfo:
    began = time.monotonic()
    info = wait_for_stack(folder, log_file, alive, DEADLINE_S)
    _line("启动", "PostgreSQL、Valkey、收图与工作进程就绪", time.monotonic() - began)
    return info


def _phantom(folder: Path) -> Path:
    from workers.commands.models import write_phantoms

    return write_phantoms(folder, SEED, 1)[0]


def _truth(folder: Path) -> str:
    """What the phantom holds, in one line."""
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    found = [f"{one['side']}肺{one['lobe']}{one['density']}{one['kind']} {one['size_mm']:.0f} mm" for one in truth["lesions"]]
    found += [f"纵隔淋巴结肿大 {one['size_mm']:.0f} mm" for one in truth.get("nodes", ())]
    found += [f"肝{one['kind']} {one['size_mm']:.0f} mm" for one in truth.get("liver", ())]
    spread = {"effusion": "胸腔积液", "emphysema": "肺气肿", "fibrosis": "肺纤维化"}
    return "；".join([*found, *(f"{side}侧{name}" for key, name in spread.items() for side in truth.get(key, ()))]) or "未见异常"


def _study_uid(folder: Path) -> str:
    from pydicom import dcmread
    from pydicom.errors import InvalidDicomError

    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        try:
            return str(dcmread(path, specific_tags=["StudyInstanceUID"], stop_before_pixels=True).StudyInstanceUID)
        except (InvalidDicomError, AttributeError):
            continue
    raise PipelineError(f"'{folder}' holds no DICOM file with a StudyInstanceUID; give a folder of one CT study")


def _follow(study_uid: str) -> str | None:
    """Print each step as it ends; returns why there is no draft, or None when there is one."""
    from pipeline.store import queries

    seen: set[int] = set()
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for event in queries.timeline(wiring.store(), study_uid):
            if event["id"] in seen:
                continue
            seen.add(event["id"])
            if ended := _tell(event):
                if ended == "persist":
                    return None
                reason = str(queries.study_overview(wiring.store(), study_uid)[0]["reason"])
                _line("停止", reason, 0.0)
                return reason
        time.sleep(0.1)
    raise ServiceUnavailable(f"no draft after {DEADLINE_S:.0f} s; `ctreport status --data {FOLDER}` and {FOLDER / 'logs'} say where it stands")


def _tell(event: Mapping[str, Any]) -> str | None:
    """Print the line of one event; returns its action when it ends the study."""
    action, detail = str(event["action"]), event["detail"]
    if action in STEPS:
        name, text = STEPS[action]
        _line(name, text(detail), float(detail.get("seconds", 0.0)))
    return action if action in ENDS else None


def _line(name: str, text: str, seconds: float) -> None:
    typer.echo(f"  {name}  {text}  {seconds:.2f} s")


def _show(study_uid: str) -> None:
    from pipeline.export.markdown import draft_markdown
    from pipeline.store import queries

    typer.echo("\n" + draft_markdown(queries.show(wiring.store(), study_uid, first=settings().draft.department)))


def _farewell(info: StackInfo, study_uid: str, keep: bool, seconds: float) -> None:
    typer.echo(f"\nSELECT status, text, flags FROM finished_reports WHERE study_uid = '{study_uid}';")
    if keep:
        typer.echo(f"  psql '{reader_url(info)}'   # read-only role ctreport_reader")
        typer.echo(f"still running (process {info.pid}); stop it with: {CTREPORT[0]} -m workers down --data {FOLDER}")
    typer.echo(f"全程 {seconds:.1f} s")
