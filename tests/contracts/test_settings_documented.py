"""Every setting stands in README's table and in deploy/env.example, with its default and its description."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.settings import AccessSettings, rows

ROOT = Path(__file__).resolve().parents[2]
TABLE = """python -c "from pipeline.settings import rows; print(*(f'| \\`{n}\\` | {d} | {t} |' for n, d, t in rows()), sep='\\n')\""""


def test_readme_lists_every_setting() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    missing = [name for name, default, text in rows() if f"| `{name}` | {default} | {text} |" not in readme]
    assert not missing, f"README's settings table lacks or misstates {missing}; write the table anew with the lines of: {TABLE}"


def test_readme_lists_no_setting_that_is_gone() -> None:
    known = {name for name, _, _ in rows()}
    listed = {line.split("`")[1] for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `CTREPORT_")}
    assert listed <= known, f"README lists {sorted(listed - known)}, which no room of pipeline/settings has"


def test_env_example_lists_every_setting_below_its_description() -> None:
    lines = (ROOT / "deploy" / "env.example").read_text(encoding="utf-8").splitlines()
    above = dict(zip(lines[1:], lines, strict=False))
    for name, default, text in rows():
        line = f"# {name}={default}"
        assert line in above, f"deploy/env.example lacks the line '{line}'"
        assert above[line].removeprefix("# ").startswith(text), f"deploy/env.example describes {name} otherwise than pipeline/settings: '{text}'"


def test_env_example_sets_nothing_but_the_passwords_to_be_filled_in_and_a_closed_list_of_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (ROOT / "deploy" / "env.example").read_text(encoding="utf-8").splitlines()
    active = [line for line in lines if line and not line.startswith("#")]
    assert active[:2] == ["POSTGRES_PASSWORD=", "REDIS_PASSWORD="]
    [(name, value)] = [line.split("=", 1) for line in active[2:]]
    monkeypatch.setenv(name, value.strip("'"))
    [peer] = AccessSettings().peers or ()
    assert peer.network.is_loopback
