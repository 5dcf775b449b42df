"""Training metrics over a sliding window of the last episodes, in graph (paper, section "Metrics")."""

import tensorflow as tf

from trainer import rewards

METRICS = ("appropriateness", "safety", "questions")


class EpisodeWindow(tf.Module):
    """The metrics of the last `episodes` finished episodes."""

    def __init__(self, episodes: int):
        super().__init__(name="window")
        self._rows = tf.Variable(tf.zeros([episodes, len(METRICS)]), name="rows")
        self._finished = tf.Variable(0, dtype=tf.int64, name="finished")

    def record(self, decision: tf.Tensor, decision_counts: tf.Tensor, questions: tf.Tensor) -> None:
        """Adds one finished episode.

        Args:
            decision: int32 scalar, column of the triage decision.
            decision_counts: `[4]`, the clinicians' decisions on the vignette.
            questions: int32 scalar, number of questions asked.
        """
        counts = decision_counts[tf.newaxis]
        row = tf.stack(
            [
                tf.cast(rewards.appropriate(counts)[0, decision], tf.float32),
                tf.cast(rewards.safe(counts)[0, decision], tf.float32),
                tf.cast(questions, tf.float32),
            ]
        )
        slot = self._finished % self._rows.shape[0]
        self._rows.scatter_nd_update([[slot]], row[tf.newaxis])
        self._finished.assign_add(1)

    def means(self) -> dict[str, float]:
        """Returns the mean of each metric over the window, empty before the first episode has ended."""
        held = min(int(self._finished), self._rows.shape[0])
        if not held:
            return {}
        return dict(zip(METRICS, self._rows[:held].numpy().mean(axis=0).tolist(), strict=True))
