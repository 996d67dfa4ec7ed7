"""The project's own drafter on a real vLLM with MTP: the start script of deploy/vllm, features as prompt embeddings, the embedded engine's tokens."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.drafting.projector import projector_of
from pipeline.drafting.prompt import section_prompt
from pipeline.drafting.reference import SEEN, reference_of
from pipeline.drafting.schema import DESCRIPTION, FINDINGS, section_schema
from pipeline.drafting.selfcheck import look_over
from pipeline.drafting.served import ServedGenerator
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.server import Question
from pipeline.drafting.vllm import VllmServer
from pipeline.drafting.wire import Address, Limits, Wire
from pipeline.engine.generate import Engine
from pipeline.engine.policy import Policy
from tests.vllm.test_same_tokens import FOLDER, PLUGIN, python
from tests.vllm.widen import widen

__all__ = ["python"]
pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3600)]
KEY, STEPS, ANSWER = "rig-key", 3, 120
SLOWEST_START_S = 1500.0
PATIENT = Limits(connect_s=60.0, first_token_s=900.0, total_s=900.0, retries=1, connections=8)


@pytest.fixture(scope="module")
def model() -> ServedModel:
    """What the client knows of the served folder."""
    return ServedModel.read(FOLDER)


@pytest.fixture(scope="module")
def served(python: str, model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedGenerator]:
    """A server that deploy/vllm/serve.sh started on the widened folder, and our client of it."""
    folder, port = tmp_path_factory.mktemp("vllm"), free_port()
    wide = widen(FOLDER, folder / "wide")
    quiet = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    named = {"VLLM_API_KEY": KEY, "CTREPORT_SERVED_DIGEST": model.digest, "STEPS": str(STEPS), "CONTEXT": "1024", "PORT": str(port), "PYTHON": python}
    command = ["sh", str(PLUGIN / "serve.sh"), str(wide), "--dtype", "float32", "--max-num-seqs", "4", "--enforce-eager"]
    with (folder / "vllm.log").open("wb") as log:
        process = subprocess.Popen(command, env=os.environ | quiet | named, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        wait(url, process, folder / "vllm.log")
        yield ServedGenerator(VllmServer(Wire(Address(url, KEY, "CTREPORT_VLLM_URL"), PATIENT), model.eos_id, projector_of(FOLDER)), model)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)


def wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it answers."""
    ends = time.monotonic() + SLOWEST_START_S
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=20):
                return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text(encoding="utf-8", errors="replace")[-3000:]
            assert time.monotonic() < ends, log.read_text(encoding="utf-8", errors="replace")[-3000:]
            time.sleep(0.5)  # a process outside of this one: there is nothing to be woken by


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def question(model: ServedModel, number: int) -> Question:
    """The n-th request: findings from features, a text behind findings, findings of words alone."""
    rows = np.random.default_rng(number).standard_normal((20 + number, model.feature_dim)).astype(np.float32) if number % 3 < 2 else None  # (N, D)
    count = 0 if rows is None else len(rows)
    section, answers = ((FINDINGS, []), (DESCRIPTION, [SEEN]), (FINDINGS, []))[number % 3]
    return model.question(section_prompt(section, "咳嗽", count, answers), rows, section_schema(section), ANSWER)


def test_tokens_through_the_drafter_are_the_embedded_engines(served: ServedGenerator, model: ServedModel) -> None:
    engine, info = Engine.load(FOLDER), served.info()
    assert (info.server.split(".")[:2], info.digest) == (["vllm 0", "32"], model.digest)
    asked = [question(model, number) for number in range(6)]
    got = [served.server.ask(one, info) for one in asked]
    ours = [
        engine.generate(one.head + "<ct>" * one.rows + one.tail, one.features, schema=one.schema, policy=Policy.plain(), max_tokens=ANSWER).ids
        for one in asked
    ]
    assert [one.ids for one in got] == ours
    accepted = sum(i * n for one in got for i, n in enumerate(one.histogram))
    print(f"vLLM k={STEPS} through the drafter: {accepted} drafted tokens accepted, {sum(map(len, ours))} tokens of {len(ours)} texts equal")
    assert accepted > 0


def test_it_passes_the_self_check(served: ServedGenerator, model: ServedModel) -> None:
    reference = reference_of(model.folder, model.digest)
    assert reference is not None
    found = look_over(served, lambda: ("the reference", reference), 0.0)
    assert found.refusal is None
    assert found.differences == 0
