"""What tests of served drafting share: a small checkpoint, fake servers of it, and a client that never sleeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.drafting.fake_server import FakeServer, Script, Trouble
from pipeline.drafting.generator import Ask
from pipeline.drafting.prompt import section_prompt, section_schema
from pipeline.drafting.schema import FINDINGS
from pipeline.drafting.served import ServedGenerator
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.sglang import SglangServer
from pipeline.drafting.wire import Address, Limits, Wire
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.model import Features

DIM = 8
OPENED: list[Wire] = []  # closed behind each test
ROWS = 4
FEATURES = Features(np.random.default_rng(1).standard_normal((ROWS, DIM)).astype(np.float32), "seeded", "1", "")
PATIENT = Limits(first_token_s=20.0, total_s=30.0, connections=12)
QUICK = Limits(connect_s=5.0, first_token_s=1.0, total_s=2.0, retries=2, connections=4)
EMPTY = '{"病灶": [], "淋巴结": [], "肝脏": [], "胸腔积液": "无", "肺气肿": "无", "纤维化": "无"}'


def seeded_model(folder: Path) -> ServedModel:
    """A served model whose weights are random."""
    folder.mkdir(parents=True, exist_ok=True)
    write_seeded_checkpoint(folder, feature_dim=DIM)
    return ServedModel.read(folder)


def ask(section: str = FINDINGS, *, max_tokens: int = 400, k: int | None = None) -> Ask:
    """One section, without what stands before it."""
    answers = ["{}"] * ("检查所见", "描述", "诊断意见", "建议").index(section)
    return Ask(section, section_prompt(section, "咳嗽", ROWS, answers), section_schema(section), max_tokens, k)


def client(server: FakeServer, *, limits: Limits = PATIENT, key: str = "", plain: bool = False, pauses: list[float] | None = None) -> ServedGenerator:
    """A generator on a fake SGLang server; what it would sleep goes to `pauses`."""
    slept = [] if pauses is None else pauses
    wire = Wire(Address(server.url, key), limits, sleep=slept.append)
    OPENED.append(wire)
    return ServedGenerator(SglangServer(wire, server.model.eos_id, plain=plain), server.model)


def troubled(*troubles: Trouble | None, k: int = 3) -> Script:
    """A script of troubles."""
    script = Script(k=k)
    script.troubles.extend(troubles)
    return script
