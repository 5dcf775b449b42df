"""Measures a trained agent: the paper's metrics, agreement with clinicians, calibration, slices, textbook cases."""
