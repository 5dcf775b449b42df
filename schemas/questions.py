"""Texts of the questions that stand for several codes of a vocabulary."""

GROUPS = {"age": "How old is the patient?", "sex": "What sex is the patient?"}
"""The question of each of `schemas.relations.EXHAUSTIVE`, whose answer is one of its members."""
ANY_OF = "Do you have any of these?"
"""The question about several red flags."""
NONE_OF = "None of these"
"""The answer to it that the patient has none."""
