import numpy as np

from trainer.bench import task_vignettes
from trainer.dyqn.environment import Mode, VignetteEnvironment


def test_vignettes_have_the_papers_amount_of_evidence_each_code_once():
    drawn = task_vignettes.draw(2_000, 597, seed=0)
    counts = np.diff(drawn.offsets)
    assert (counts.min(), counts.max()) == (1, 17)
    assert abs(counts.mean() - 7.25) < 5 * (7.25 / 2_000) ** 0.5  # the standard error of a Poisson mean
    for first, last in zip(drawn.offsets[:-1], drawn.offsets[1:], strict=True):
        cells = np.abs(drawn.signed_codes[first:last])
        assert len(set(cells.tolist())) == last - first
        assert cells.min() >= 1
        assert cells.max() <= 597
    assert (drawn.decision_counts.sum(axis=1) == 3).all()


def test_a_small_vocabulary_bounds_the_evidence():
    assert np.diff(task_vignettes.draw(50, 4, seed=0).offsets).max() <= 4


def test_the_vignettes_survive_the_file_and_fit_the_environment(tmp_path):
    drawn = task_vignettes.draw(20, 30, seed=1)
    task_vignettes.save(tmp_path / "v.npz", drawn)
    loaded = task_vignettes.load(tmp_path / "v.npz")
    for mine, theirs in zip(loaded, drawn, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    import tensorflow as tf

    generator = tf.random.Generator.from_seed(0, alg="philox")
    environment = VignetteEnvironment(loaded, 30, Mode(training=True, max_questions=5), generator)
    assert environment.reset().observation.state.shape == [1, 30]
