"""Where a benchmark ran: machine and commit, without which no figure means anything."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def machine(folder: Path) -> str:
    """Processor, cores, memory, kernel, file system of the folder, and how busy it was."""
    cpu = next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    cores, busy = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    return f"{cpu}, {cores} cores, {memory_gb:.0f} GB, {platform.system()} {platform.release()}, {_file_system(folder)}, load {busy:.1f} at the start"


def memory_bytes() -> int:
    """Memory that programs can still have, by the kernel's estimate."""
    return next(1024 * int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemAvailable"))


def _file_system(folder: Path) -> str:
    """Type of the mount with the longest path above the folder."""
    mounts = [line.split() for line in _lines("/proc/mounts")]
    above = [(len(mount[1]), mount[2]) for mount in mounts if folder.resolve().is_relative_to(mount[1])]
    return max(above)[1] if above else "unknown file system"


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()


def commit() -> str:
    """Short hash of the checkout that runs, '+' with changes; empty outside one."""
    root = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str:
        ran = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
        return ran.stdout.strip() if ran.returncode == 0 else ""

    try:
        found = git("rev-parse", "--short", "HEAD")
        return found + ("+" if found and git("status", "--porcelain", "--untracked-files=no") else "")
    except FileNotFoundError:
        return ""
