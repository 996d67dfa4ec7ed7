"""Reports in sections, on any engine: the findings are made once and frozen, then each department's three texts are written from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from pipeline.drafting.departments import RADIOLOGY, control_word
from pipeline.drafting.generator import WHOLE, Ask, Generated, Generator
from pipeline.drafting.parse import put_together
from pipeline.drafting.prompt import render, section_prompt
from pipeline.drafting.schema import DESCRIPTION, FINDINGS, SECTIONS, dumps
from pipeline.drafting.schemas import Schemas, packaged
from pipeline.drafting.together import generation_of, source_of
from pipeline.drafting.whitelist import WhiteList, on_list
from pipeline.errors import BadDraft
from pipeline.model import DraftAnswer, Features, Found
from pipeline.ports import quiet
from pipeline.renewing import Kept

Mode = Literal["sections", "whole"]
Lengths = Mapping[str, int]  # section, or WHOLE for all of them → tokens drafted per step
Told = Callable[[str, int], None]  # section, tokens
PLAIN: Lengths = {WHOLE: 0}
AS_IT_PLEASES: Lengths = {}


def no_list() -> None:
    """Every word may stand in a text."""


class SectionDrafter:
    """Drafts on one engine. In mode `whole` the first department's report is written in one call and its findings are the frozen ones.

    `lengths` are the draft lengths where a call gives none. An answer of a server that was cut or is no report is asked for once more, without
    drafts; the embedded engine would give the same again. A text of a section with a word off the `white` list is written again with a listed one.
    """

    def __init__(
        self,
        generator: Generator,
        *,
        mode: Mode = "sections",
        max_tokens: int = 600,
        lengths: Lengths = AS_IT_PLEASES,
        schemas: Callable[[], Schemas] = packaged,
        white: Callable[[], WhiteList | None] = no_list,
    ) -> None:
        self.generator = generator
        self._mode = mode
        self._max_tokens = max_tokens
        self._lengths = lengths
        self._schemas = schemas
        self._white = white

    @property
    def phantom_only(self) -> bool:
        """As the engine's card says."""
        return self.generator.phantom_only

    def draft(self, features: Features, indication: str, department: str) -> DraftAnswer:
        """One department's report with nothing frozen before it. Raises as `find`; NotAllowed for a department that no model writes for."""
        found = self.find(features, indication, department)
        if found.whole is not None:
            return found.whole
        written = self.write(features, indication, found, department)
        generation = generation_of({FINDINGS: found.generation, WHOLE: written.generation})
        return DraftAnswer(written.text, generation, source_of([found.source, written.source]))

    def find(self, features: Features, indication: str, department: str = RADIOLOGY, lengths: Lengths | None = None, told: Told = quiet) -> Found:
        """The findings of a study. Raises ModelMissing, NotAllowed, ServiceUnavailable, BadInput or BadDraft."""
        control_word(department)
        if self._mode == "whole":
            return self._whole(features, indication, department, lengths, told)
        made = self._answer(FINDINGS, section_prompt(FINDINGS, indication, len(features.array)), features, lengths, told)
        return Found(made.text, made.generation, made.source)

    def write(
        self,
        features: Features,
        indication: str,
        found: Found,
        department: str,
        lengths: Lengths | None = None,
        told: Told = quiet,
        kept: Kept | None = None,
    ) -> DraftAnswer:
        """One department's report from frozen findings: its text is a whole report with exactly these findings. What is kept of an earlier draft
        stands in the prompts of what follows. Raises as `find`."""
        parts: dict[str, Generated] = {}
        texts = [found.text]
        for section in SECTIONS[1:]:
            if kept is not None and section in kept.texts:
                texts.append(dumps({section: kept.texts[section]}))
                continue
            prompt = section_prompt(section, indication, len(features.array), texts, department)
            parts[section] = self._answer(section, prompt, features, lengths, told, indication)
            texts.append(parts[section].text)
        schemas = self._schemas()
        text = put_together([schemas.parse_section(section, answer) for section, answer in zip(SECTIONS, texts, strict=True)])
        generation = generation_of({section: part.generation for section, part in parts.items()})
        sources = [kept.source] if kept is not None else []
        return DraftAnswer(text, generation, source_of([*sources, *(part.source for part in parts.values())]))

    def _whole(self, features: Features, indication: str, department: str, lengths: Lengths | None, told: Told) -> Found:
        made = self._answer(WHOLE, render(indication, len(features.array), department), features, lengths, told)
        generation = generation_of({WHOLE: made.generation})
        return Found(findings_in(made.text), generation, made.source, DraftAnswer(made.text, generation, made.source))

    def _answer(self, section: str, prompt: str, features: Features, lengths: Lengths | None, told: Told, indication: str | None = None) -> Generated:
        """One valid answer; of a text behind an `indication` one in listed words. Raises BadDraft where none came."""
        schemas = self._schemas()
        schema = schemas.section(section) if section else schemas.whole
        ask = Ask(section, prompt, schema, self._max_tokens, k_of(section, self._lengths if lengths is None else lengths))
        made = self.generator.generate(ask, features)
        try:
            self._valid(schemas, section, made)
        except BadDraft:
            if not made.source.server or ask.k == 0:
                raise
            made = self.generator.generate(replace(ask, k=0), features)
            self._valid(schemas, section, made)
        white = self._white() if indication is not None else None
        if white is not None and indication is not None:
            made = on_list(white, self.generator, ask, features, made, indication, lambda one: self._is_valid(schemas, section, one))
        told(section, made.generation.tokens)
        return made

    def _is_valid(self, schemas: Schemas, section: str, made: Generated) -> bool:
        try:
            self._valid(schemas, section, made)
        except BadDraft:
            return False
        return True

    def _valid(self, schemas: Schemas, section: str, made: Generated) -> None:
        if not made.ended:
            raise BadDraft(
                f"the model's answer was cut at {self._max_tokens} tokens and is no whole report; "
                "raise CTREPORT_DRAFT_MAX_TOKENS, then `ctreport retry`"
            )
        _ = schemas.parse_section(section, made.text) if section else schemas.parse(made.text)


def k_of(section: str, lengths: Lengths) -> int | Lengths | None:
    """What is drafted per step in a section: its own number, for 描述 that of 检查所见, else the one for all; None where nothing is said. A whole
    report takes all that is said of sections."""
    if section == WHOLE:
        named = {name: k for name, k in lengths.items() if name}
        return named or lengths.get(WHOLE)
    own = lengths.get(section, lengths.get(FINDINGS) if section == DESCRIPTION else None)
    return lengths.get(WHOLE) if own is None else own


def findings_in(text: str) -> str:
    """The frozen findings of a valid whole report's text, as a section of its own would be written."""
    found = dict(json.loads(text)[FINDINGS])
    del found[DESCRIPTION]
    return dumps(found)
