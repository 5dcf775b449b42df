"""Measures a trained agent: the paper's metrics, agreement, calibration, slices, textbook cases, interviews."""
