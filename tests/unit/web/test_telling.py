"""Accept headers as RFC 9110 reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.web.telling import FORMS, JSON, MARKDOWN, form_for


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/*", MARKDOWN),
        ("text/markdown", MARKDOWN),
        ("Text/Markdown; charset=utf-8", MARKDOWN),
        ("application/json;q=0.5, text/markdown;q=0.9", MARKDOWN),
        ("application/json;q=0.9, text/markdown;q=0.5", JSON),
        ("application/json;q=0, */*", MARKDOWN),
        ("text/markdown;q=0, text/*", None),
        ("application/pdf", None),
        ("*/*;q=0", None),
        ("application/json;q=nan", None),
        ("application/json;q=²", None),
    ],
)
def test_the_form_that_is_liked_best(accept: str, form: str | None) -> None:
    assert form_for(accept) == form


@given(st.text(alphabet="application/jsontextmarkdown*;q=01., "))
def test_any_header_is_understood(accept: str) -> None:
    assert form_for(accept) in (*FORMS, None)
