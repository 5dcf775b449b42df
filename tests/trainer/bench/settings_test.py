from trainer.bench import task_vignettes
from trainer.bench.settings import Settings


def test_settings_survive_the_command_line():
    settings = Settings("v.npz", evidence_count=40, hidden_sizes=(8, 4), batch_size=7, algorithm="adam")
    assert Settings.from_json(settings.to_json()) == settings


def test_vignettes_are_read_from_the_file(tmp_path):
    task_vignettes.save(tmp_path / "v.npz", task_vignettes.draw(5, 10, seed=0))
    assert len(Settings(str(tmp_path / "v.npz")).read_vignettes().decision_counts) == 5
