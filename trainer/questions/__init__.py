"""Chooses the next question by the information that its answer is expected to give about the decision."""
