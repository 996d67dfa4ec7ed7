"""`ctreport demo`: a line per step, the draft, one SQL line; nothing left running, and an interrupted run breaks nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from pipeline.model import WATERMARK
from tests.journeys.conftest import eventually
from workers.commands.demo import FOLDER
from workers.local import read_stack
from workers.stack import CTREPORT

STEPS = ["收图", "组检", "编码", "生成", "质检", "入库"]
PHANTOM_NAME = ("测试", "体模", "CESHI", "TIMO", "PHANTOM-")


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("CTREPORT_")} | {"CTREPORT_ASSEMBLE_QUIET_S": "1"}


def left_running(folder: Path) -> list[str]:
    """Command lines of processes that belong to a demo in `folder`."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line or str(folder) in (process.info["environ"] or {}).get("CTREPORT_DATA", ""):
            found.append(line)
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def printed(place: Path) -> str:
    ran = subprocess.run([*CTREPORT, "demo"], cwd=place, env=environment(), capture_output=True, text=True, timeout=170, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_each_step_has_a_line_with_counts_and_seconds_in_order(printed: str) -> None:
    lines = [line for line in printed.splitlines() if line.startswith(tuple(f"  {step}  " for step in STEPS))]
    assert [line.split()[0] for line in lines] == STEPS
    assert all(re.search(r"\d", line) and re.search(r"\d\.\d\d s$", line) for line in lines)


def test_the_draft_its_source_and_the_sql_line_are_printed(printed: str) -> None:
    for part in (WATERMARK, "检查所见", "诊断意见", "建议", "来源：embedded"):
        assert part in printed
    assert re.search(r"^SELECT .* FROM finished_reports WHERE study_uid = '[\d.]+';$", printed, re.MULTILINE)


def test_the_logs_hold_neither_the_patients_name_nor_a_uid_nor_report_text(printed: str, place: Path) -> None:
    logs = "".join(path.read_text(errors="replace") for path in (place / FOLDER / "logs").glob("*.log"))
    uid = re.search(r"study_uid = '([\d.]+)'", printed)
    assert uid is not None
    assert '"event"' in logs
    assert not [secret for secret in (*PHANTOM_NAME, uid[1], "胸廓", "建议") if secret in logs]


def test_nothing_is_left_running(printed: str, place: Path) -> None:
    assert read_stack(place / FOLDER) is None
    assert eventually(lambda: not left_running(place), 10.0)


def test_a_run_killed_in_the_middle_leaves_nothing_that_breaks_the_next_one(printed: str, place: Path) -> None:
    demo = subprocess.Popen([*CTREPORT, "demo"], cwd=place, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: read_stack(place / FOLDER))
    demo.send_signal(signal.SIGKILL)
    demo.wait(timeout=10)
    assert eventually(lambda: not left_running(place), 60.0)
    again = subprocess.run([*CTREPORT, "demo"], cwd=place, env=environment(), capture_output=True, text=True, timeout=170, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "诊断意见" in again.stdout
