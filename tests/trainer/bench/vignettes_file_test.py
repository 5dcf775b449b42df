import numpy as np
import tensorflow as tf

from trainer.bench.settings import BenchVignettes, load_vignettes, save_vignettes
from trainer.dyqn.environment import Mode, VignetteEnvironment


def test_the_vignettes_survive_the_file_and_fit_the_environment(random_vignettes, tmp_path):
    rows = random_vignettes
    save_vignettes(tmp_path / "v.npz", BenchVignettes(rows.offsets, rows.signed_codes, rows.decision_counts))
    loaded = load_vignettes(tmp_path / "v.npz")
    np.testing.assert_array_equal(loaded.offsets, rows.offsets)
    np.testing.assert_array_equal(loaded.signed_codes, rows.signed_codes)
    np.testing.assert_array_equal(loaded.decision_counts, rows.decision_counts)
    generator = tf.random.Generator.from_seed(0, alg="philox")
    environment = VignetteEnvironment(loaded, 30, Mode(training=True, max_questions=5), generator)
    assert environment.reset().observation.state.shape == [1, 30]
