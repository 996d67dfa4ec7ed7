"""A stand-in for torchvision, whose wheels belong to GPU builds of torch: SGLang imports it for image models that are not served here."""

from __future__ import annotations

from typing import Any

from absent import found, pretend

__version__ = "0.0"
pretend(__name__)


def __getattr__(name: str) -> Any:
    return found(__name__, name)
