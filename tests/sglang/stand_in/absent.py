"""Packages that SGLang imports and that this rig does not need: every name can be imported, subclassed and used to declare, none can run."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, MutableSequence
from types import ModuleType
from typing import Any

REFUSED = "'{}' was to be run, but this rig has none; keep the server from it"


class AbsentClass(type):
    """The class of absent classes: they have every attribute too."""

    def __getattr__(cls, name: str) -> Any:
        return found(f"{cls.__module__}.{cls.__name__}", name)


class Absent:
    """An attribute, a decorator, a base class or a kernel, as the importing module wants it."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        return found(self.__name__, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not args and not kwargs:
            raise RuntimeError(REFUSED.format(self.__name__))
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else self

    def __getitem__(self, _: Any) -> Callable[..., None]:
        raise RuntimeError(REFUSED.format(self.__name__))

    def __mro_entries__(self, _: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)


class AbsentModule(ModuleType):
    """A module of such names."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 - what makes a module a package

    def __getattr__(self, name: str) -> Any:
        return found(self.__name__, name)


class _Finder:
    """Any module inside one absent package."""

    def __init__(self, package: str) -> None:
        self._inside = package + "."

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.startswith(self._inside) else None  # type: ignore[arg-type]  # a loader by its methods

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def pretend(package: str) -> None:
    """Let `import package.anything` succeed."""
    sys.meta_path.append(_Finder(package))


def found(module: str, name: str) -> Any:
    """What an absent module has under a name: a class when it looks like one."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name[0].isupper():
        return AbsentClass(name, (), {"__module__": module, "__init__": _takes_anything})
    return Absent(f"{module}.{name}")


def _takes_anything(self: object, *_: object, **__: object) -> None:
    return None
