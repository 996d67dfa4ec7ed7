"""The sender of the receive benchmark: DCMTK `storescu` (C++, so that the sender is not what is measured), one process an association.

TCP_NODELAY in DCMTK 3.6.7 (dcmnet, dulfsm.cc for the requestor and dul.cc for the acceptor; seen with strace on Debian's build): Nagle's
algorithm stays **on** unless the environment variable TCP_NODELAY holds a number other than 0. `storescu` asks for its own socket before it
connects; `storescp` and Orthanc (which uses the same library) ask for each accepted one. What `storescp` and Orthanc lose with everything
at its default they lose by their **own** Nagle: DCMTK writes an answer in two pieces (12 bytes of PDU header, then the rest), the second piece waits
until the first is acknowledged, and the sender's kernel delays that by 40 ms. So the benchmark sets both ends of a peer apart: as shipped, and with
TCP_NODELAY=1 in the receiver's environment.

Time runs from the first request of an association to the last release, by the sender's own log (milliseconds); starting the processes and
looking through the files do not count.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pipeline.errors import ServiceUnavailable

PROGRAM = "storescu"
FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
AET = "CTREPORT"
SEND_LIMIT_S = 300.0
POLL_S = 0.01
# -R: only contexts that the files need, as a scanner does; patient with a receiver that serves one association after the other
OPTIONS = ("-R", "-ta", str(int(SEND_LIMIT_S)), "-aec", AET)
REQUESTED, RELEASED, SUCCESS = "Requesting Association", "Releasing Association", "Received Store Response (Success)"
# To a file: with the console as appender the progress dots of each PDU would be written there as well.
LOG_CONFIG = """log4cplus.rootLogger = INFO, file
log4cplus.appender.file = log4cplus::FileAppender
log4cplus.appender.file.File = {log}
log4cplus.appender.file.layout = log4cplus::PatternLayout
log4cplus.appender.file.layout.ConversionPattern = %D{{%s.%q}} %m%n
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent: `images` is the sum over all associations, which run at the same time."""

    object: str  # small | large | 1GB
    associations: int
    images: int
    sender_tcp_nodelay: bool
    rounds: int

    def __str__(self) -> str:
        sender = "NODELAY" if self.sender_tcp_nodelay else "default"
        several = "s" if self.associations > 1 else ""
        return f"{self.images} {self.object}, {self.associations} association{several}, {sender} sender"


@dataclass(frozen=True, slots=True)
class Association:
    """What the log of one sender says; seconds since 1970."""

    begun_s: float
    ended_s: float
    succeeded: int


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of a load: seconds from the first association to the last release, and images that were answered with Success."""

    seconds: float
    succeeded: int


def absent() -> str:
    """Why nothing can be sent, empty when it can."""
    return "" if dcmtk(PROGRAM) else f"DCMTK's {PROGRAM} is not installed (Debian: apt-get install dcmtk)"


@lru_cache
def dcmtk(name: str) -> str:
    """Path of a program of DCMTK, empty where there is none: pynetdicom brings scripts of the same names, often earlier on the path."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *FOLDERS]
    found = (shutil.which(name, path=folder) for folder in folders if folder)
    return next((path for path in found if path and version(path).startswith("dcmtk:")), "")


@lru_cache
def version(program: str) -> str:
    """First line that a program says to --version, without the dollars of DCMTK; empty where it says nothing."""
    try:
        ran = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ran.stdout.strip().partition("\n")[0].strip("$ ")


def send(shares: Sequence[Sequence[Path]], port: int, folder: Path, nodelay: bool) -> Sent:
    """Send each share over its own association, all at once. Raises ServiceUnavailable when a sender does not finish."""
    logs = [folder / f"sender-{number}.log" for number in range(len(shares))]
    for log in logs:
        log.unlink(missing_ok=True)
    env = os.environ | {"TCP_NODELAY": "1" if nodelay else "0"}
    with _ended([_start(share, port, log, env) for share, log in zip(shares, logs, strict=True)]) as senders:
        deadline = time.monotonic() + SEND_LIMIT_S
        while any(sender.poll() is None for sender in senders):
            if time.monotonic() > deadline:
                raise ServiceUnavailable(f"the receiver did not take {sum(map(len, shares))} images in {SEND_LIMIT_S:.0f} s; look at its log")
            time.sleep(POLL_S)
    return together([read_log(log.read_text(encoding="utf-8", errors="replace")) for log in logs])


def read_log(text: str) -> Association:
    """Times and answers of one association. Raises ServiceUnavailable when it was never released: the peer refused or aborted."""
    lines = [match.groups() for match in re.finditer(r"^(\d+\.\d+) (.*)$", text, re.MULTILINE)]
    begun = next((float(at) for at, said in lines if said.startswith(REQUESTED)), None)
    ended = next((float(at) for at, said in lines if said.startswith(RELEASED)), None)
    if begun is None or ended is None:
        raise ServiceUnavailable(f"an association was not released in order; the sender's last word: {lines[-1][1] if lines else 'none'}")
    return Association(begun, ended, sum(said == SUCCESS for _, said in lines))


def together(associations: Sequence[Association]) -> Sent:
    """All associations of a load as one."""
    seconds = max(one.ended_s for one in associations) - min(one.begun_s for one in associations)
    return Sent(max(seconds, 0.001), sum(one.succeeded for one in associations))


def _start(share: Sequence[Path], port: int, log: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    config = log.with_suffix(".cfg")
    config.write_text(LOG_CONFIG.format(log=log), encoding="utf-8")
    command = [dcmtk(PROGRAM), "-lc", str(config), *OPTIONS, "127.0.0.1", str(port), *map(str, share)]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, env=env, start_new_session=True)


@contextlib.contextmanager
def _ended(processes: list[subprocess.Popen[bytes]]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """None of them outlives the block."""
    try:
        yield processes
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
