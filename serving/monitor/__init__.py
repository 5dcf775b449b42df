"""`triage monitor`: compares served cases with those that a version was trained and evaluated on."""
