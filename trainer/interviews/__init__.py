"""Interviews, in training and in evaluation alike: the patients who answer, who asks, and how they are played."""
