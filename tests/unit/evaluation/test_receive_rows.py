from pipeline.evaluation.receive_load import Load
from pipeline.evaluation.receive_rows import Measure, ratio, rows

NODELAY, NAGLE = Load("small", 1, 100, True, 3), Load("small", 1, 100, False, 3)


def a_measure(what: str, images_per_s: float, number: int = 0, load: Load = NODELAY, nodelay: bool | None = None, failed: str = "") -> Measure:
    seconds = load.images / images_per_s
    return Measure(what, nodelay, load, number, seconds, load.images, 50.0, 2.0, 1.0, 120.0, 90.0, failed)


def test_a_row_is_the_median_of_its_rounds_with_their_spread() -> None:
    (row,) = rows(a_measure("ctreport", speed, number) for number, speed in enumerate((100, 400, 200)))
    assert row["images_per_s"] == 200
    assert row["spread"] == 1.5
    assert row["rounds"] == 3
    assert row["mb_per_s"] == 100
    assert row["peak_mb"] == 120


def test_cpu_seconds_are_told_with_and_without_the_database() -> None:
    (row,) = rows([a_measure("ctreport", 100)])
    assert row["cpu_s_per_1000"] == 20
    assert row["cpu_s_per_1000_with_database"] == 30


def test_a_ratio_compares_within_a_round_so_that_a_slow_minute_hits_both() -> None:
    ours = [a_measure("ctreport", speed, number) for number, speed in enumerate((100, 10, 100))]
    theirs = [a_measure("orthanc", speed, number) for number, speed in enumerate((50, 5, 50))]
    assert ratio(ours, theirs) == 2


def test_a_ratio_needs_a_round_that_both_survived() -> None:
    assert ratio([a_measure("ctreport", 100, 0)], [a_measure("orthanc", 50, 1)]) is None
    assert ratio([a_measure("ctreport", 100, 0)], [a_measure("orthanc", 50, 0, failed="lost")]) is None
    assert ratio([], []) is None


def test_a_default_sender_is_compared_with_peers_as_shipped_and_a_nodelay_sender_with_tuned_ones() -> None:
    measures = [
        a_measure("ctreport", 200, load=NAGLE),
        a_measure("orthanc", 20, load=NAGLE, nodelay=False),
        a_measure("orthanc", 80, load=NAGLE, nodelay=True),
        a_measure("ctreport", 300, load=NODELAY),
        a_measure("orthanc", 150, load=NODELAY, nodelay=True),
    ]
    ratios = [(row["what"], row["receiver_tcp_nodelay"], row["ratio_to_orthanc"]) for row in rows(measures)]
    assert ratios == [("ctreport", None, 10), ("orthanc", False, 1), ("orthanc", True, 4), ("ctreport", None, 2), ("orthanc", True, 1)]


def test_each_row_states_the_sender() -> None:
    assert [row["sender_tcp_nodelay"] for row in rows([a_measure("a", 1), a_measure("a", 1, load=NAGLE)])] == [True, False]


def test_a_failed_round_has_no_figures_and_says_why() -> None:
    (row,) = rows([a_measure("ctreport", 100, 0), a_measure("ctreport", 900, 1, failed="3 images have no row")])
    assert row["images_per_s"] == 100
    assert row["rounds"] == 1
    assert row["failed"] == ["3 images have no row"]


def test_a_contender_that_always_fails_has_a_row_all_the_same() -> None:
    (row,) = rows([Measure("orthanc", True, NODELAY, 0, failed="does not listen")])
    assert row["images_per_s"] is None
    assert row["spread"] is None
    assert row["ratio_to_orthanc"] is None
    assert row["rounds"] == 0
