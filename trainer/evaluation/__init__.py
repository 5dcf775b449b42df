"""What an evaluation says beside its metrics: agreement, calibration, early answers, slices."""
