"""A trained agent: `triage train`, `triage evaluate` and `triage export`."""

import dataclasses
import os
import pathlib
from typing import Any

import pandas as pd

from dyqn_triage.keywords import parsed, takes_options
from dyqn_triage.model import Model
from schemas.errors import InputError
from trainer import task
from trainer.commands import evaluate, export, export_version, train
from trainer.data.tfrecord import DataDirectory
from trainer.evaluation.options import EvaluateOptions
from trainer.reports.agent_report import AgentReport
from trainer.reports.evaluate import measured
from trainer.training.agent_options import OperatingPointOptions
from trainer.training.job import JobDirectory
from triage_runtime.command_line import options as command_line
from triage_runtime.command_line.json_output import plain


@dataclasses.dataclass(frozen=True, repr=False)
class Evaluation:
    """What an agent reached on vignettes; a notebook shows the verdict, if there is one, and the table."""

    report: AgentReport

    @property
    def verdict(self) -> str | None:
        """Whether the agent is as good as the clinicians, in one line; None where the vignettes do not show it."""
        return self.report.comparison.verdict

    @property
    def table(self) -> pd.DataFrame:
        """A row for each measure: mean and bounds of the 95% interval, of agent, clinicians, and their difference.

        Columns are (who, figure), NaN where a figure does not exist.
        """
        rows = self.report.comparison.rows
        columns = {
            (who, figure): [getattr(getattr(row, who), figure, None) for row in rows]
            for who in ("agent", "clinicians", "difference")
            for figure in ("mean", "low", "high")
        }
        return pd.DataFrame(columns, index=pd.Index([row.measure for row in rows], name="metric"), dtype=float)

    @property
    def figures(self) -> dict[str, Any]:
        """All figures, as `triage evaluate --json` writes them."""
        return plain(self.report.described())

    def __repr__(self) -> str:
        return "\n".join(filter(None, (self.verdict, str(self.table))))

    def _repr_html_(self) -> str:
        verdict = f"<p>{self.verdict}</p>" if self.verdict else ""
        return verdict + self.table.to_html(float_format="{:.3f}".format, na_rep="-")


class Agent:
    """An agent in a job directory, as `fit` and `triage train` leave it.

    Raises:
        InputError: it is none.
    """

    def __init__(self, job_dir: str | os.PathLike[str]):
        self.job_dir = pathlib.Path(job_dir)
        self._run = JobDirectory(self.job_dir).run()

    def __repr__(self) -> str:
        loop, network = (self._run["config"][name] for name in ("loop", "network"))
        return f"Agent({str(self.job_dir)!r}): {loop['steps']:,} steps, seed {loop['seed']}, {network['outputs']}"

    @takes_options(evaluate.add_arguments, "job_dir", "data")
    def evaluate(self, data: DataDirectory | str | os.PathLike[str], **options: Any) -> Evaluation:
        """Measures the agent on the test split of a data directory.

        Args:
            data: with the vocabulary that the agent was trained with.
            options: of `triage evaluate`, such as `orders=20`, `html="report.html"`, `rules="rules.toml"`.

        Raises:
            InputError: the data or the options do not fit.
        """
        given = {"job_dir": self.job_dir, "data": data, **options}
        arguments = parsed(evaluate.add_arguments, given)
        evaluate.check(arguments)
        read = command_line.read(EvaluateOptions, arguments), command_line.read(OperatingPointOptions, arguments)
        return Evaluation(measured(*read))

    @takes_options(export.add_arguments, "job_dir", "model_base_path", "push_to")
    def export(self, models: str | os.PathLike[str], **options: Any) -> Model:
        """Writes the agent as the next version in a folder of versions, and opens it.

        Args:
            models: the model base path.
            options: of `triage export`, such as `data=data`, `rules="rules.toml"`, `sure_enough=0.95`.

        Raises:
            InputError: an option is faulty, or the version did not pass the gate or keep the promise that one asks for.
        """
        arguments = parsed(export.add_arguments, {"job_dir": self.job_dir, "model_base_path": models, **options})
        if export_version.run(arguments):
            raise InputError(f"{models}: the version did not pass its comparison, or cannot keep the promise")
        return Model(models)


@takes_options(task.add_arguments, "data", "job_dir")
def fit(data: DataDirectory | str | os.PathLike[str], job_dir: str | os.PathLike[str], **options: Any) -> Agent:
    """Trains an agent, or goes on where an interrupted training stopped; progress goes to standard error.

    Interrupting the kernel stops after a checkpoint.

    Args:
        data: a data directory.
        job_dir: where checkpoints and evaluations go.
        options: of `triage train`, such as `preset="paper"`, `steps=500`, `seed=1`.

    Raises:
        InputError: the data, an option or the job directory is faulty.
        KeyboardInterrupt: it was interrupted; the same call goes on.
        RuntimeError: it diverged; the last good checkpoint is kept.
    """
    code = train.run(parsed(task.add_arguments, {"data": data, "job_dir": job_dir, **options}))
    if code == train.DIVERGED:
        raise RuntimeError("the training diverged: try a lower learning_rate in a new job_dir")
    if code:
        raise KeyboardInterrupt
    return Agent(job_dir)
