"""Which question to put next: what each answer is expected to say about the decision, and what may be asked at all."""
