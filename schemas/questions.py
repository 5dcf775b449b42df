"""Texts of the questions that stand for several codes of a vocabulary, in the languages that we have."""

GROUPS = {
    "en": {"age": "How old is the patient?", "sex": "What sex is the patient?"},
    "de": {"age": "Wie alt sind Sie?", "sex": "Welches Geschlecht haben Sie?"},
    "es": {"age": "¿Qué edad tiene?", "sex": "¿Cuál es su sexo?"},
    "fr": {"age": "Quel âge avez-vous\N{NO-BREAK SPACE}?", "sex": "Quel est votre sexe\N{NO-BREAK SPACE}?"},
    "it": {"age": "Quanti anni ha?", "sex": "Di che sesso è?"},
}
"""By language, the question of each of `schemas.relations.EXHAUSTIVE`, whose answer is one of its members."""
ANY_OF = {
    "en": ("Do you have any of these?", "None of these"),
    "de": ("Haben Sie etwas davon?", "Nichts davon"),
    "es": ("¿Tiene algo de esto?", "Nada de esto"),
    "fr": ("Avez-vous l\N{RIGHT SINGLE QUOTATION MARK}une de ces choses\N{NO-BREAK SPACE}?", "Aucune"),
    "it": ("Ha una di queste cose?", "Nessuna"),
}
"""The question about several red flags, and the answer that the patient has none, in the same languages."""
