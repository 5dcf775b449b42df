"""What a served answer is made of: closure, safety rules, danger signs, decision, questions and novelty."""
