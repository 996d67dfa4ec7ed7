"""The extractor on every wording that the model learns from: what the corpus writes of a truth is read back as that truth."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from pipeline.drafting.schema import dumps
from pipeline.evaluation.score import score
from pipeline.evaluation.told import told
from pipeline.training.corpus import pair
from pipeline.training.reasons import Reason
from pipeline.training.truth import Truth
from tests.unit.evaluation.truths import NORMAL, RICH, truths
from tests.unit.evaluation.writer import proposals


def check(truth: Truth, reason: Reason) -> None:
    report = told(dumps(pair(proposals(truth), truth, reason=reason)))
    found = score(report, proposals(truth), truth)
    assert (found["agreed"], found["described"]) == (1, 1)
    assert (found["invented"], found["missed"]) == (0, 0)
    assert found["complete"] == found["positive"] == len(truth.lesions)
    assert found["terms_right"] == found["terms_said"] == found["terms_true"]


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("truth", [RICH, NORMAL, replace(RICH, contrast=True, low_dose=True, kernel="B60f")])
def test_every_wording_is_read_as_it_was_meant(truth: Truth, reason: Reason) -> None:
    check(truth, reason)


@given(truths())
@settings(max_examples=15, deadline=None)
def test_any_truth_is_read_as_it_was_written(truth: Truth) -> None:
    for reason in Reason:
        check(truth, reason)
