from __future__ import annotations

import json

from pipeline.evaluation.laterality import evaluate_laterality
from pipeline.evaluation.learned_table import sides_markdown


def test_phantoms_are_told_as_they_are_and_mirrored() -> None:
    seen: list[float] = []
    result = evaluate_laterality(2, seed=3, told=lambda done, line: seen.append(done))
    assert [row["what"] for row in result["rows"]] == ["phantoms, as it is", "phantoms, mirrored", "invented patients, slices"]
    assert seen == [0.5, 1.0]
    for row in result["rows"][:2]:
        assert row["volumes"] == 2
        assert 10 <= row["slices"] <= 24
        assert row["wrong"]["value"] == 0.0
        assert row["right"]["value"] + row["unsure"]["value"] == 1.0
    assert result["rows"][2]["slices"] == 20
    assert result["rows"][2]["slice_accuracy"]["value"] > 0.6
    json.dumps(result)
    assert "| phantoms, mirrored | 2 |" in sides_markdown(result)
