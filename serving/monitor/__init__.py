"""`triage monitor`: compares served cases with those that a version was made for."""
