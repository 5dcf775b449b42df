"""The commands of `triage` that train, measure and export: one module each, save `train`, which is `trainer.task`."""
