"""`triage bench learn`: our training beside that of other libraries."""
