"""From a team's own format to a data directory, and checks of one: statistics, anomalies, the schema."""
