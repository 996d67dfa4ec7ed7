"""A stand-in for Triton, whose wheel brings a GPU compiler: kernels can be declared, none can be launched."""

from __future__ import annotations

from typing import Any

from absent import found, pretend

__version__ = "0.0"
pretend(__name__)


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(a // -b)


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length() if n > 0 else 1


def __getattr__(name: str) -> Any:
    return found(__name__, name)
