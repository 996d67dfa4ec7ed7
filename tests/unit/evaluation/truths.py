"""Truths for tests: one with everything in it, and any that hypothesis may think of."""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline.model import Side
from pipeline.training.truth import LIVER_KINDS, LOBES, Lesion, LiverLesion, Node, Truth

RICH = Truth(
    lesions=(
        Lesion("结节", Side.RIGHT, "上叶", "部分实性", 12.0, (-80.0, 0.0, 60.0), "毛刺", True, True),
        Lesion("结节", Side.LEFT, "下叶", "磨玻璃", 20.0, (80.0, 20.0, -60.0), "分叶"),
        Lesion("实变", Side.RIGHT, "中叶", "实性", 40.0, (-70.0, -40.0, -20.0), "模糊"),
    ),
    effusion=frozenset({Side.LEFT}),
    low_dose=False,
    seed=1,
    kvp=120.0,
    mas=150.0,
    kernel="B30f",
    nodes=(Node(14.0, (0.0, 0.0, 0.0)),),
    liver=(LiverLesion("血管瘤", 20.0, (-80.0, 0.0, -120.0)), LiverLesion("低密度灶", 25.0, (-20.0, 10.0, -120.0))),
    emphysema=frozenset(Side),
    fibrosis=frozenset({Side.RIGHT}),
)
NORMAL = Truth((), frozenset(), False, 2, 120.0, 150.0, "B30f")


@st.composite
def truths(draw: st.DrawFn) -> Truth:
    """At most four lung lesions, two nodes and two liver lesions, each 60 mm or more from the others."""
    count, nodes, livers = (draw(st.integers(0, most)) for most in (4, 2, 2))
    return Truth(
        lesions=tuple(draw(_lesion((0.0, 60.0 * number, 0.0))) for number in range(count)),
        effusion=draw(_sides),
        low_dose=False,
        seed=draw(st.integers(0, 9)),
        kvp=120.0,
        mas=150.0,
        kernel="B30f",
        nodes=tuple(Node(float(draw(st.integers(11, 25))), (200.0, 60.0 * number, 0.0)) for number in range(nodes)),
        liver=tuple(
            LiverLesion(draw(st.sampled_from(LIVER_KINDS)), float(draw(st.integers(8, 60))), (400.0, 60.0 * number, 0.0)) for number in range(livers)
        ),
        emphysema=draw(_sides),
        fibrosis=draw(_sides),
    )


_sides = st.frozensets(st.sampled_from(list(Side)))


@st.composite
def _lesion(draw: st.DrawFn, center: tuple[float, float, float]) -> Lesion:
    side = draw(st.sampled_from(list(Side)))
    lobe, size = draw(st.sampled_from(LOBES[side])), float(draw(st.integers(5, 40)))
    if draw(st.booleans()):
        return Lesion("实变", side, lobe, "实性", size, center, "模糊")
    density, margin = draw(st.sampled_from(("实性", "磨玻璃", "部分实性"))), draw(st.sampled_from(("光滑", "分叶", "毛刺")))
    return Lesion("结节", side, lobe, density, size, center, margin, draw(st.booleans()), draw(st.booleans()))
