"""The real SGLang on a processor: started in its own environment with this project's external package and the stand-ins of stand_in/."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.engine.checkpoint import digest

HERE = Path(__file__).parent
DEPLOY = HERE.parents[1] / "deploy" / "sglang"
KEY = "rig-key"
STEPS = 3  # tokens drafted per step
CHUNK = 24  # tokens read at once: the features of every prompt are cut in the middle
SLOWEST_START_S = 1500.0  # a busy machine imports for minutes; a quiet one takes about half a minute
ENVIRONMENT = {
    "SGLANG_EXTERNAL_MODEL_PACKAGE": "ctreport_sglang",
    "SGLANG_EXTERNAL_MM_PROCESSOR_PACKAGE": "ctreport_sglang",
    "SGLANG_EXTERNAL_MM_MODEL_ARCH": "DeepseekV3ForCausalLM",
    "SGLANG_USE_CPU_ENGINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": f"{HERE / 'stand_in'}:{DEPLOY}",
}
FLAGS = """--host 127.0.0.1 --device cpu --attention-backend intel_amx --dtype float32 --grammar-backend xgrammar
--constrained-json-disable-any-whitespace --enable-metrics --max-total-tokens 32768 --mem-fraction-static 0.3 --max-running-requests 16
--log-level warning"""
DRAFTING = f"""--speculative-algorithm NEXTN --speculative-num-steps {STEPS} --speculative-eagle-topk 1
--speculative-num-draft-tokens {STEPS + 1}"""


class Rig:
    """One server process group on a free port of this machine."""

    def __init__(self, python: str, folder: Path, log: Path, *, drafting: bool = True, chunk: int = CHUNK) -> None:
        self.port = _free_port()
        self.log = log
        flags = [*FLAGS.split(), *(DRAFTING.split() if drafting else ()), "--chunked-prefill-size", str(chunk)]
        named = ["--model-path", str(folder), "--port", str(self.port), "--api-key", KEY, "--weight-version", digest(folder)]
        self._process = _start([python, "-m", "sglang.launch_server", *named, *flags], log)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def wait(self) -> Rig:
        """Until it answers. AssertionError with the end of its log when it does not."""
        ends = time.monotonic() + SLOWEST_START_S
        while not self.answers():
            assert self._process.poll() is None, f"SGLang ended before it answered:\n{self._tail()}"
            assert time.monotonic() < ends, f"SGLang did not answer within {SLOWEST_START_S:g} s:\n{self._tail()}"
            time.sleep(0.5)  # a process outside of this one: there is nothing to be woken by
        return self

    def answers(self) -> bool:
        """True when it is there and lets us in."""
        request = urllib.request.Request(f"{self.url}/health", headers={"Authorization": f"Bearer {KEY}"})
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """SIGKILL to all its processes at once, and wait until the first is gone."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=60)

    def _tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[Any]:
    with log.open("wb") as out:
        return subprocess.Popen(command, env=os.environ | ENVIRONMENT, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
