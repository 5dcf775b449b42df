import pytest

from trainer.bench import ours, task_vignettes
from trainer.bench.contestants import OURS
from trainer.bench.settings import Settings


@pytest.mark.parametrize("learner", OURS.values(), ids=list(OURS))
def test_every_step_after_the_burn_in_is_one_optimisation(learner, tmp_path, monkeypatch):
    task_vignettes.save(tmp_path / "v.npz", task_vignettes.draw(30, 12, seed=0))
    settings = Settings(str(tmp_path / "v.npz"), 12, hidden_sizes=(8, 8), batch_size=4, burn_in_steps=20)
    loops = []
    build = ours.TrainingLoop
    monkeypatch.setattr(ours, "TrainingLoop", lambda *given: loops.append(build(*given)) or loops[-1])
    take = ours.steps_of(settings, learner)
    assert (loops[0].step, int(loops[0].agent.train_step_counter)) == (20, 0)
    take(5)
    assert (loops[0].step, int(loops[0].agent.train_step_counter)) == (25, 5)
    assert loops[0].config.memory.batch_size == 4
