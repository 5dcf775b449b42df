"""Apache Beam for commands that can run on a cluster: its runners, and its file systems."""
