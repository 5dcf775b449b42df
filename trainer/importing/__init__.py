"""`triage prepare`: from a team's own format to a data directory."""
