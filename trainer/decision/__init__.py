"""From a network's outputs to an answer: decision, operating point, safety rules, novelty, next question."""
