"""Line numbers of what stands in a file of rules."""

import pytest

from schemas.rule_lines import RuleLines

TEXT = """\
# [a] is not here
[a]
reason = "fever"
# fever_over_39 is not here
all.present = [
  "fever_over_39",
]

["b b"]
all.present = ["fever"]
[c.all]
absent = ["cough"]
"""


@pytest.mark.parametrize(
    ("table", "mark", "line"),
    [
        ("a", "", 2),
        ("a", "reason", 3),
        ("a", "fever_over_39", 6),  # not the comment before it
        ("a", "fever", 3),
        ("a", "39", 2),  # a part of a code is not the code: the header
        ("a", "cough", 2),  # stands in another table
        ("b b", "fever", 10),
        ("c", "cough", 12),
        ("nowhere", "fever", 1),
    ],
)
def test_a_word_is_found_in_the_lines_of_its_table(table, mark, line):
    assert RuleLines(TEXT).find(table, mark) == line
