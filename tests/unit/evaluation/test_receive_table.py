from pipeline.evaluation.receive_load import Load
from pipeline.evaluation.receive_rows import Measure, rows
from pipeline.evaluation.receive_table import HEAD, markdown, tables
from pipeline.evaluation.receive_targets import verdicts

LOAD = Load("small", 4, 240, False, 1)
ROWS = rows(
    [
        Measure("ctreport", None, LOAD, 0, 1.0, 240, 126.0, 1.2, 0.3, 150.4, 99.9),
        Measure("orthanc", False, LOAD, 0, 4.0, 240, 126.0, 1.0, 0.0, 107.0, 96.5),
        Measure("orthanc", True, LOAD, 0, failed="does not listen"),
    ]
)
RESULT = {"machine": "a desk", "date": "2026-11-30", "commit": "", "versions": "none", "rows": ROWS, "targets": verdicts(ROWS)}


def test_a_load_is_one_table_that_names_the_sender() -> None:
    ((title, body),) = tables(ROWS)
    assert title == "small objects, 4 associations, default (Nagle) sender, 240 images"
    assert [line[:4] for line in body] == [
        ("ctreport", "own", "240", "126"),
        ("orthanc", "default", "60.0", "31.5"),
        ("orthanc", "NODELAY", "–", "–"),
    ]
    assert all(len(line) == len(HEAD) for line in body)


def test_markdown_has_place_date_and_lines_of_equal_width() -> None:
    text = markdown(RESULT)
    assert text.startswith("Measured 2026-11-30 on a desk; commit unknown; none.")
    lines = [line for line in text.splitlines() if line.startswith(("| ctreport", "| receiver"))]
    assert len({line.count("|") for line in lines}) == 1
    assert "| ctreport | own | 240 (4.00×) | 5.00 | 6.25 | 150 | 99.9 |" in text


def test_targets_come_last_with_yes_or_no() -> None:
    load = Load("small", 1, 100, True, 1)
    measured = rows([Measure("ctreport", None, load, 0, 1.0, 100, 52.0), Measure("orthanc", True, load, 0, 2.0, 100, 52.0)])
    text = markdown(RESULT | {"rows": measured, "targets": verdicts(measured)})
    assert text.splitlines()[-2] == "| must | ≥ 1 | × Orthanc, small, 1 assoc., NODELAY sender, ctreport | 2.00 | yes |"


def test_markdown_has_a_column_per_number_of_associations_with_cpu_of_the_fewest_and_memory_of_the_most() -> None:
    one, eight = (Load("large", number, number, True, 1) for number in (1, 8))
    measured = rows(
        [
            Measure("ctreport", None, eight, 0, 4.0, 8, 2000.0, 8.0, 0.0, 800.0, 700.0),
            Measure("ctreport", None, one, 0, 1.0, 1, 250.0, 0.5, 0.1, 200.0, 150.0),
            Measure("orthanc", True, one, 0, 2.0, 1, 250.0, 1.0, 0.0, 900.0, 900.0),
        ]
    )
    lines = markdown(RESULT | {"rows": measured}).splitlines()
    assert "**large objects, TCP_NODELAY sender**: MB/s (× Orthanc)" in lines
    assert "| receiver | its TCP | 1 association | 8 associations | CPU s / 1,000 (1) | with database | peak MB (8) | shared once |" in lines
    assert "| ctreport | own | 250 (2.00×) | 500 | 500 | 600 | 800 | 700 |" in lines
    assert "| orthanc | NODELAY | 125 (1.00×) | – | 1000 | 1000 | – | – |" in lines
