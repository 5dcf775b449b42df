import io
import math

import numpy as np
import pytest
from rich.console import Console

from trainer.evaluation.vignette_statistics import PAPER, Moments, Statistics, statistics, statistics_table

# Symptoms present, absent, risk factors present, absent; decisions Red, Yellow, Green, Blue.
EVIDENCE = np.array([[4, 1, 1, 0], [2, 2, 0, 0], [3, 0, 2, 1]])
DECISIONS = np.array([[2, 1, 0, 0], [0, 0, 1, 0], [0, 2, 2, 0]], np.uint8)

# Mean and sample SD of the three values, by hand. Inter-expert figures are of the first and the third vignette:
# Red, Red, Yellow: each Red has {Red, Yellow} left and fits, Yellow has {Red, Red} left: neither appropriate nor safe,
# 2/3; Yellow, Yellow, Green, Green: each fits in {Yellow, Green}, 1. Mean 5/6, SD sqrt(2 * (1/6)^2 / 1).
# Green fits {Red, Yellow} not, nor is it safe; it fits {Green} and {Yellow, Green}: 0, 1, 1.
EXPECTED = {
    "symptoms": (4.0, 1.0),  # 5, 4, 3
    "symptoms_present": (3.0, 1.0),  # 4, 2, 3
    "symptoms_absent": (1.0, 1.0),  # 1, 2, 0
    "risk_factors": (4 / 3, math.sqrt(7 / 3)),  # 1, 0, 3: (1/9 + 16/9 + 25/9) / 2
    "risk_factors_present": (1.0, 1.0),  # 1, 0, 2
    "risk_factors_absent": (1 / 3, math.sqrt(1 / 3)),  # 0, 0, 1: (1/9 + 1/9 + 4/9) / 2
    "decisions_per_vignette": (8 / 3, math.sqrt(7 / 3)),  # 3, 1, 4: (1/9 + 25/9 + 16/9) / 2
    "share_Red": (2 / 9, math.sqrt(4 / 27)),  # 2/3, 0, 0: (16/81 + 4/81 + 4/81) / 2
    "share_Yellow": (5 / 18, math.sqrt(7 / 108)),  # 1/3, 0, 1/2: (1 + 25 + 16) / 18^2 / 2
    "share_Green": (1 / 2, 1 / 2),  # 0, 1, 1/2
    "share_Blue": (0.0, 0.0),
    "inter_expert_appropriateness": (5 / 6, math.sqrt(1 / 18)),
    "inter_expert_safety": (5 / 6, math.sqrt(1 / 18)),
    "always_green_appropriateness": (2 / 3, math.sqrt(1 / 3)),  # (4/9 + 1/9 + 1/9) / 2
    "always_green_safety": (2 / 3, math.sqrt(1 / 3)),
}


def test_figures_of_three_vignettes():
    moments, decisions = statistics(EVIDENCE, DECISIONS)
    assert {name: figure[:2] for name, figure in moments.items()} == {
        name: pytest.approx(figure) for name, figure in EXPECTED.items()
    }
    assert {name for name, figure in moments.items() if figure.vignettes == 3} == {
        name for name in EXPECTED if not name.startswith("inter_expert")
    }
    assert moments["inter_expert_safety"].vignettes == 2
    assert decisions == (1, 4)


def test_one_vignette_has_no_standard_deviation_and_none_has_no_mean():
    nothing = statistics(EVIDENCE[:0], DECISIONS[:0])
    assert np.isnan(nothing.figures["symptoms"][:2]).all()
    assert (nothing.figures["symptoms"].vignettes, nothing.decisions) == (0, None)
    moments, _ = statistics(EVIDENCE[1:2], DECISIONS[1:2])
    assert moments["symptoms"] == Moments(4.0, pytest.approx(math.nan, nan_ok=True), 1)
    assert moments["inter_expert_safety"].vignettes == 0
    assert math.isnan(moments["inter_expert_safety"].mean)


def test_each_figure_stands_beside_that_of_the_paper_in_80_columns():
    marked = {name: Moments(1000.0 + number, 0.5, 1_000_000) for number, name in enumerate(PAPER.figures)}
    console = Console(file=io.StringIO(), width=80)
    console.print(statistics_table(Statistics(marked, (2, 255))))
    printed = console.file.getvalue()
    assert "…" not in printed
    assert [name for name, moments in marked.items() if f"{moments.mean:.2f} (0.50)" not in printed] == []
    [row] = [line.split() for line in printed.splitlines() if line.strip().startswith("symptoms")]
    assert row == ["symptoms", "1000.00", "(0.50)", "1,000,000", "6.15", "(2.60)", "1,374"]
