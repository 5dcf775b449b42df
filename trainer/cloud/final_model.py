"""The servable that a training job leaves in `--model-dir`, where a model registry expects saved_model.pb."""

import dataclasses
import pathlib
import shutil
import tempfile

from schemas import directories
from schemas.errors import InputError
from schemas.safety_rules import NO_RULES, RuleSet
from trainer.evaluation.options import ORDERS
from trainer.export import publish, saved_model
from trainer.training import job

EVALUATION_SEED = 0


def write_final_model(
    job_dir: pathlib.Path,
    model_dir: pathlib.Path,
    number: int,
    data: pathlib.Path | None,
    rules: RuleSet = NO_RULES,
) -> publish.Exported:
    """Exports the newest checkpoint of `job_dir` to `model_dir`, overwriting files; saved_model.pb is written last.

    Args:
        job_dir: of a training run.
        model_dir: for the files of `<model base path>/<version>/`.
        number: number of the version, which its answers carry; from 1.
        data: data directory whose test split the version is evaluated on, for its model card; None for no evaluation.
        rules: its safety rules.

    Raises:
        InputError: there is no trained agent, or it cannot be exported, evaluated or written.
    """
    trained = dataclasses.replace(job.load_network(job_dir), rules=rules)
    evaluation = publish.Evaluation(data, ORDERS, EVALUATION_SEED) if data is not None else None
    with tempfile.TemporaryDirectory() as scratch:
        target = publish.Target(pathlib.Path(scratch), number, saved_model.MODEL_NAME)
        exported = publish.export(trained, job_dir, target, evaluation)
        whole = pathlib.Path(scratch) / str(number)
        try:
            shutil.copytree(
                whole, model_dir, dirs_exist_ok=True, ignore=shutil.ignore_patterns(directories.SAVED_MODEL)
            )
            shutil.copy2(whole / directories.SAVED_MODEL, model_dir / directories.SAVED_MODEL)
        except (OSError, shutil.Error) as error:
            raise InputError(f"--model-dir {model_dir}: cannot write: {error}") from error
    return exported._replace(folder=model_dir)
