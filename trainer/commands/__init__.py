"""The commands of `triage` that train, measure and export, a module each; `train` has its options in `trainer.task`."""
