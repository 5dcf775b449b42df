"""`triage monitor`: compares served cases with what clinicians decided on them."""
