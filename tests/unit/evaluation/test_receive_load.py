import stat
from pathlib import Path

import pytest

from pipeline.errors import ServiceUnavailable
from pipeline.evaluation import receive_load
from pipeline.evaluation.receive_load import Association, Load, Sent, read_log, together

LOG = """\
1796030092.856 determining input files ...
1796030092.859 Requesting Association
1796030092.860 Association Accepted (Max Send PDV: 16372)
1796030092.860 Sending Store Request (MsgID 1, CT)
1796030092.863 Received Store Response (Success)
1796030092.967 Sending Store Request (MsgID 2, CT)
1796030092.968 Received Store Response (Refused: OutOfResources)
1796030092.969 Releasing Association
"""


def test_time_runs_from_request_to_release_and_only_success_counts() -> None:
    assert read_log(LOG) == Association(1796030092.859, 1796030092.969, 1)


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_an_association_that_was_not_released_is_an_error_that_quotes_the_sender(cut: int) -> None:
    lines = LOG.splitlines(keepends=True)[:cut]
    with pytest.raises(ServiceUnavailable, match=(lines[-1].split(" ", 1)[1].strip().replace("(", r"\(").replace(")", r"\)") if lines else "none")):
        read_log("".join(lines))


def test_a_load_takes_from_the_first_request_to_the_last_release() -> None:
    assert together([Association(10.0, 12.0, 3), Association(10.5, 14.0, 4)]) == Sent(4.0, 7)


def test_a_load_says_who_sends_what() -> None:
    assert str(Load("small", 4, 240, False, 2)) == "240 small, 4 associations, default sender"
    assert str(Load("1GB", 1, 1, True, 2)) == "1 1GB, 1 association, NODELAY sender"


def test_a_script_of_pynetdicom_is_not_taken_for_dcmtk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both install a `storescu`."""
    folders = []
    for name, says in (("venv", "storescu.py v1.0"), ("usr", "$dcmtk: storescu v3.6.7 2022-04-22 $")):
        script = tmp_path / name / "bench-storescu"
        script.parent.mkdir()
        script.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        folders.append(str(script.parent))
    monkeypatch.setenv("PATH", ":".join([*folders, "/bin"]))
    assert receive_load.dcmtk("bench-storescu") == str(tmp_path / "usr" / "bench-storescu")
    assert receive_load.dcmtk("no-such-program") == ""
