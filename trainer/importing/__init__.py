"""`triage prepare`: from the formats that teams have to a data directory."""
