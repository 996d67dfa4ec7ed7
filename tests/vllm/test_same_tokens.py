"""vLLM writes the greedy tokens that the embedded engine writes, with and without MTP, from the project's own weights.

Its MLA kernels take the published head sizes only, so it gets the folder widened with zeros (widen.py). Prompts are mixed: embeddings at
the places of CT features, token ids elsewhere. Optional: it takes an environment of its own, whose Python CTREPORT_VLLM_PYTHON names;
`make test-vllm` makes it and runs this.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pipeline.drafting.prompt import render
from pipeline.engine.checkpoint import PACKAGED
from pipeline.engine.generate import Engine
from pipeline.engine.policy import Policy
from tests.vllm.widen import widen

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1800)]
PLUGIN = Path(__file__).parents[2] / "deploy" / "vllm"
SERVE = Path(__file__).with_name("serve.py")
FOLDER = Path(os.environ.get("CTREPORT_DRAFT_WEIGHTS") or PACKAGED)
ANSWER = 160  # tokens, as in serve.py
TEXTS = 6


@dataclass(frozen=True)
class Asked:
    """Requests on disk, the folder to serve, and what our engine answers without drafting and without a grammar."""

    folder: Path
    path: Path
    ours: list[list[int]]


@pytest.fixture(scope="module")
def python() -> str:
    """The interpreter of vLLM's environment."""
    found = os.environ.get("CTREPORT_VLLM_PYTHON", "")
    if not Path(found).is_file():
        pytest.skip("CTREPORT_VLLM_PYTHON names no interpreter with vLLM; run `make test-vllm`")
    return found


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    """Six prompts: five with CT features, one of words alone."""
    engine = Engine.load(FOLDER)
    rng = np.random.default_rng(0)
    tensors: dict[str, torch.Tensor] = {}
    ours = []
    for number in range(TEXTS):
        count = 0 if number == TEXTS - 1 else 20 + number
        features = rng.normal(size=(count, engine.config.ct_feature_dim)).astype(np.float32) if count else None
        prompt = render(("咳嗽", "体检", "")[number % 3], count)
        ours.append(list(engine.generate(prompt, features, schema=None, policy=Policy.plain(jump=False), max_tokens=ANSWER).ids))
        tensors |= _request(engine, number, prompt, features)
    path = tmp_path_factory.mktemp("vllm") / "requests.safetensors"
    save_file(tensors, path)
    return Asked(widen(FOLDER, path.parent / "wide"), path, ours)


def _request(engine: Engine, number: int, prompt: str, features: np.ndarray | None) -> dict[str, torch.Tensor]:
    ids = torch.tensor(engine.tokenizer.encode(prompt))  # (T)
    rows = None if features is None else torch.from_numpy(features).unsqueeze(0)
    with torch.inference_mode():
        embedded = engine.model.embed(ids.unsqueeze(0), rows)[0].clone()  # (T, hidden)
    return {f"ids.{number}": ids, f"rows.{number}": embedded, f"places.{number}": (ids == engine.config.ct_placeholder_id).int()}


def with_plugin() -> dict[str, str]:
    """This process's environment, in which vLLM finds deploy/vllm's plugin."""
    return os.environ | {"PYTHONPATH": str(PLUGIN)}


def served(python: str, asked: Asked, k: int, folder: Path) -> dict[str, Any]:
    """What vLLM answers with k drafted tokens per step."""
    answers = folder / f"answers-{k}.json"
    command = [python, str(SERVE), str(asked.folder), str(asked.path), str(answers), str(k)]
    ran = subprocess.run(command, env=with_plugin(), capture_output=True, text=True, timeout=1700, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    value: dict[str, Any] = json.loads(answers.read_text(encoding="utf-8"))
    return value


@pytest.mark.parametrize("k", [0, 1, 3])
def test_vllm_writes_the_same_tokens(python: str, asked: Asked, k: int, tmp_path: Path) -> None:
    got = served(python, asked, k, tmp_path)
    eos = Engine.load(FOLDER).tokenizer.eos_id
    theirs = [ids[: ids.index(eos)] if eos in ids else ids for ids in got["ids"]]
    assert theirs == asked.ours
    if k:
        print(f"vLLM k={k}: {got['accepted']} of {got['drafted']} drafted tokens accepted")
        assert got["accepted"] > 0
