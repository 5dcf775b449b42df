"""What a run leaves on disk: job directory, checkpoints, output written whole."""
