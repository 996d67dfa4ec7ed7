"""Text that cannot become markup."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"[\\`*|<>\[\]]|~(?=~)|(?<=~)~|^#")


def inline(text: str) -> str:
    """One line of text in which what Markdown or HTML would read as markup is escaped."""
    return _MARKUP.sub(r"\\\g<0>", text.replace("\n", " "))
