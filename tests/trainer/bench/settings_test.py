from trainer.bench.settings import Settings


def test_settings_survive_the_command_line():
    settings = Settings("v.npz", evidence_count=40, hidden_sizes=(8, 4), batch_size=7)
    assert Settings.from_json(settings.to_json()) == settings
