"""Which section of the report the next token belongs to, read from the text that was written."""

from __future__ import annotations

import re

FINDINGS, IMPRESSION, ADVICE = "检查所见", "诊断意见", "建议"
SECTIONS = (FINDINGS, IMPRESSION, ADVICE)
LOGGED = {FINDINGS: "findings", IMPRESSION: "impression", ADVICE: "advice"}  # log lines carry no Chinese: it could be a patient's
START_K = {FINDINGS: 7, IMPRESSION: 3, ADVICE: 4}  # MTP draft length before anything was observed (findings 6–8)
LABELS = {FINDINGS: FINDINGS, "描述": FINDINGS, IMPRESSION: IMPRESSION, ADVICE: ADVICE}  # last words of a prompt → section

_TRAILING = re.compile(r"(?:\[[^\[\]]*\])+$")  # the labels without content at a prompt's end
_LABEL = re.compile(r"\[([^\[\]]*)\]")
_KEYS = {f'"{section}":'.encode(): section for section in SECTIONS}
_LONGEST = max(len(key) for key in _KEYS)


def opening_section(prompt: str) -> str:
    """The section that an answer to `prompt` begins with: the first known label of those at its end, else 检查所见."""
    trailing = _TRAILING.search(prompt)
    names = _LABEL.findall(trailing.group()) if trailing else []
    return next((LABELS[name] for name in names if name in LABELS), FINDINGS)


class SectionWatcher:
    """Follows the pieces of one text; a section begins behind its JSON key.

    Inside a JSON string a quote is escaped, so `"诊断意见":` with bare quotes is always a key and never a value.
    """

    def __init__(self, section: str = FINDINGS) -> None:
        self.section = section
        self._tail = b""  # the end of the text, as long as a key and the byte before it

    def feed(self, piece: bytes) -> str:
        """Add the bytes of one written token and return the section of the next one."""
        seen = self._tail + piece
        place = -1
        for key, section in _KEYS.items():
            found = seen.rfind(key)
            fresh = found + len(key) > len(self._tail)
            if fresh and found > place and seen[found - 1 : found] != b"\\":
                place, self.section = found, section
        self._tail = seen[-_LONGEST - 1 :]
        return self.section
