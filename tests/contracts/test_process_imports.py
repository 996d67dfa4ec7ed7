"""What a process does not need, it does not load: the listener no torch, the web page no DICOM network, nobody the training."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

NOWHERE = {"CTREPORT_DATABASE_URL": "postgresql://nobody:x@127.0.0.1:1/none", "CTREPORT_REDIS_URL": "redis://127.0.0.1:1/0"}
PROCESSES = {
    "listener": ("import workers.listener; from workers import wiring; wiring.listener()", {"torch", "transformers", "llguidance", "scipy"}),
    "web": ("import workers.web", {"torch", "transformers", "pynetdicom", "scipy"}),
    "io": (
        "import workers.tasks; from workers import wiring; wiring.assembling(); wiring.sweeping(); wiring.delivering()",
        {"torch", "transformers", "pynetdicom"},
    ),
    "encode": ("import workers.tasks; from workers import wiring; wiring.encoding()", {"pynetdicom", "llguidance", "transformers"}),
    "packaged encoder": (
        "from pipeline.encoder.choice import network; from pipeline.settings import settings; network(settings().encoder)",
        {"transformers"},
    ),
}


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_loads_only_what_it_needs(process: str, tmp_path: str) -> None:
    code, unwanted = PROCESSES[process]
    env = os.environ | NOWHERE | {"CTREPORT_DATA": str(tmp_path)}
    script = f"{code}; import json, sys; print(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    loaded = set(json.loads(ran.stdout.splitlines()[-1]))
    assert not loaded & (unwanted | {"pytest"})
    assert "pipeline" in loaded


@pytest.mark.parametrize("process", PROCESSES)
def test_no_serving_process_loads_training_or_evaluation(process: str, tmp_path: str) -> None:
    code, _ = PROCESSES[process]
    script = f"{code}; import sys; print([m for m in sys.modules if m.startswith(('pipeline.training', 'pipeline.evaluation'))])"
    env = os.environ | NOWHERE | {"CTREPORT_DATA": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=False, timeout=60)
    assert ran.stdout.splitlines()[-1] == "[]", ran.stdout + ran.stderr
