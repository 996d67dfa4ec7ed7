"""deploy/sglang: the start script's flags and its memory ladder, and that its compose file starts what the settings name."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # comes with transformers, without stubs

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "sglang"
DIGEST = "ab" * 32
GIVEN = {"SGLANG_API_KEY": "key", "CTREPORT_SERVED_DIGEST": DIGEST}


@pytest.fixture(scope="module")
def serve() -> ModuleType:
    """The start script, which is no part of our packages: it runs in SGLang's image."""
    spec = importlib.util.spec_from_file_location("serve", DEPLOY / "serve.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["serve"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with a model's length."""
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 163840}), encoding="utf-8")
    return tmp_path


def started(serve: ModuleType, arguments: Sequence[str], starved: int = 0) -> tuple[list[list[str]], list[str]]:
    """The command lines of servers that run out of memory `starved` times, and what was said."""
    lines: list[list[str]] = []
    said: list[str] = []

    def run(line: Sequence[str]) -> tuple[int, bool]:
        lines.append(list(line))
        return (1, True) if len(lines) <= starved else (0, False)

    wanted, first = serve.parsed(arguments, GIVEN)
    serve.climb(wanted, first, run, said.append)
    return lines, said


def value(line: Sequence[str], flag: str) -> str:
    """What stands behind a flag."""
    return line[line.index(flag) + 1]


def test_a_server_drafts_one_chain_and_names_its_weights(serve: ModuleType, model: Path) -> None:
    (line,), _ = started(serve, [str(model), "--steps", "4", "--gpus", "8"])
    assert value(line, "--speculative-algorithm") == "NEXTN"
    steps = [value(line, f"--speculative-{name}") for name in ("num-steps", "eagle-topk", "num-draft-tokens")]
    assert steps == ["4", "1", "5"]
    assert value(line, "--weight-version") == DIGEST
    assert (value(line, "--api-key"), value(line, "--tp-size")) == ("key", "8")
    assert {"--constrained-json-disable-any-whitespace", "--enable-metrics"} <= set(line)
    assert "--log-requests" not in line


def test_a_plain_server_drafts_nothing(serve: ModuleType, model: Path) -> None:
    (line,), _ = started(serve, [str(model), "--plain"])
    assert not [word for word in line if "speculative" in word]


def test_memory_that_runs_out_leads_down_the_ladder(serve: ModuleType, model: Path) -> None:
    lines, said = started(serve, [str(model)], starved=9)
    assert [(value(line, "--mem-fraction-static"), value(line, "--context-length"), "--disable-cuda-graph" in line) for line in lines] == [
        ("0.9", "8192", False),
        ("0.8", "8192", False),
        ("0.8", "4096", False),
        ("0.8", "4096", True),
    ]
    assert "quantised" in said[-1]
    assert not [line for line in lines if "--quantization" in line]


def test_a_server_that_fails_for_another_reason_is_not_started_again(serve: ModuleType, model: Path) -> None:
    lines, _ = started(serve, [str(model), "--rung", "2"], starved=1)
    assert [value(line, "--context-length") for line in lines] == ["4096", "4096"]


def test_quantised_weights_are_taken_by_choice_and_with_a_warning(serve: ModuleType, model: Path) -> None:
    (line,), said = started(serve, [str(model), "--quantization", "fp8"])
    assert value(line, "--quantization") == "fp8"
    assert said[0].startswith("WARNING: --quantization fp8 changes the model")


def test_a_short_model_is_asked_for_no_longer_context(serve: ModuleType, model: Path) -> None:
    (model / "config.json").write_text(json.dumps({"max_position_embeddings": 2048}), encoding="utf-8")
    (line,), _ = started(serve, [str(model)])
    assert value(line, "--context-length") == "2048"


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_neither_a_key_nor_a_digest_may_be_left_out(serve: ModuleType, model: Path, missing: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        serve.parsed([str(model)], {name: text for name, text in GIVEN.items() if name != missing})
    assert {"SGLANG_API_KEY": "SGLANG_API_KEY is empty", "CTREPORT_SERVED_DIGEST": "--digest must be"}[missing] in capsys.readouterr().err


def test_a_real_child_that_runs_out_of_memory_is_known_by_what_it_prints(serve: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    script = "import sys; print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'); sys.exit(3)"
    assert serve.run([sys.executable, "-c", script]) == (3, True)
    assert serve.run([sys.executable, "-c", "raise SystemExit(4)"]) == (4, False)
    assert "out of memory" in capsys.readouterr().out


def test_our_package_comes_first_and_what_was_on_the_path_stays(serve: ModuleType) -> None:
    assert serve.environment({"PYTHONPATH": "/other"})["PYTHONPATH"] == f"{DEPLOY}:/other"
    assert serve.environment({})["SGLANG_EXTERNAL_MM_MODEL_ARCH"] == "DeepseekV3ForCausalLM"


def test_each_service_starts_a_script_that_is_there(serve: ModuleType) -> None:
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))
    for name, service in compose["services"].items():
        interpreter, script, *arguments = service["command"]
        assert interpreter in ("python3", "sh"), name
        assert (DEPLOY / Path(script).name).is_file(), name
        if script.endswith("serve.py"):
            steps = ["--steps", "1"] if "--steps" in arguments else []
            serve.parsed(["/model", *steps, *(word for word in arguments if word in ("--plain", "--adaptive"))], GIVEN)
        assert service["networks"] == ["internal"], name
        assert "ports" not in service, name
