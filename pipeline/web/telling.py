"""What a caller is told: a request as JSON, and which form of a report suits an Accept header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pipeline.asking import Asked

ROOT = "/api/v1"
JSON, MARKDOWN = "application/json", "text/markdown"
FORMS = (JSON, MARKDOWN)  # the first is preferred
SOURCE = ("rung", "model", "model_digest", "server", "speculation", "phantom_only", "rules_version")
FIGURES = ("tokens", "verify_count", "accepted_histogram", "seconds", "first_token_s")
Shown = Mapping[str, object]


def link(request_id: UUID) -> str:
    """Where a request is found. It holds no UID of DICOM."""
    return f"{ROOT}/drafts/{request_id}"


def request_json(asked: Asked, shown: Shown | None = None) -> dict[str, object]:
    """One request; `shown` is its draft, where one is written and may be read."""
    at = link(asked.id)
    return {
        "id": str(asked.id),
        "study_id": str(asked.study_id),
        "department": asked.department,
        "state": asked.state.value,
        "step": asked.step,
        "section": asked.section or None,
        "tokens": asked.tokens,
        "revision": asked.revision,
        "reason": asked.reason or None,
        "barred": asked.barred or None,
        "num_speculative_tokens": asked.lengths,
        "asked_at": asked.asked_at.isoformat(),
        "ended_at": asked.ended_at.isoformat() if asked.ended_at else None,
        "written": written_json(shown) if shown else None,
        "links": {"self": at, "events": f"{at}/events", "report": f"{at}/report" if shown else None},
    }


def written_json(shown: Shown) -> dict[str, object]:
    """By whom and how a draft was written; `num_speculative_tokens` is what was used, by section ("" stands for all of them)."""
    draft = _part(shown, "draft")
    source, made = _part(draft, "source"), _part(draft, "generation")
    told: dict[str, object] = {"num_speculative_tokens": made.get("k"), "watermark": shown.get("watermark")}
    return told | {name: source.get(name) for name in SOURCE} | {name: made.get(name) for name in FIGURES}


def form_for(accept: str) -> str | None:
    """The form of a report that an Accept header likes best (RFC 9110 12.5.1); None where it takes neither."""
    liked = {form: _quality(accept, form) for form in FORMS}
    best = max(FORMS, key=lambda form: liked[form])
    return best if liked[best] > 0 else None


def _quality(accept: str, form: str) -> float:
    """How much an Accept header likes a media type, 0 to 1: the most specific range that matches counts."""
    kind = form.partition("/")[0]
    found: dict[str, float] = {}
    for part in accept.split(",") if accept.strip() else ["*/*"]:
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((piece[2:] for piece in parameters if piece.startswith("q=")), "1")
        found[name] = _number(quality)
    return next((found[name] for name in (form, f"{kind}/*", "*/*") if name in found), 0.0)


def _number(text: str) -> float:
    whole, _, rest = text.partition(".")
    right = whole in ("0", "1") and (not rest or rest.isdecimal()) and text.isascii()
    return min(1.0, float(text)) if right else 0.0


def _part(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = value.get(name)
    return part if isinstance(part, Mapping) else {}
