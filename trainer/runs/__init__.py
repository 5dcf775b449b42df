"""The files of a run: job directory, checkpoints, output directory."""
