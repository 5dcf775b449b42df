"""The pages on which a clinician labels vignettes, blind to others' decisions until their own is made."""

from typing import NamedTuple

from starlette.responses import Response

from schemas.evidence import Evidence
from schemas.triage import DECISION_LABELS
from serving.console.agent import Agent, AgentError
from serving.console.labels import Labels, Vignette
from serving.console.pages import Pages
from serving.console.view import verdict


class Findings(NamedTuple):
    """What a vignette states, by name."""

    patient: list[str]
    """Risk factors, such as age and habits; those that are absent begin with "not"."""
    present: list[str]
    absent: list[str]


class Labelling:
    """Answers the requests of the pages for labelling.

    Args:
        agent: the model, asked after each decision.
        pages: the templates.
        labels: the vignettes and their file.
    """

    def __init__(self, agent: Agent, pages: Pages, labels: Labels):
        self._agent, self._pages, self._labels = agent, pages, labels

    def show(self, form: dict[str, str]) -> Response:
        """Returns the page of the next vignette. It names no decision."""
        vignette = self._labels.next()
        findings = self._findings(vignette) if vignette else None
        return self._pages.show(
            "label", vignette_id=vignette.vignette_id if vignette else "", findings=findings,
            labels_done=self._labels.done, total=self._labels.total,
        )  # fmt: skip

    def decide(self, form: dict[str, str]) -> Response:
        """Writes a decision, and returns the page of what the others and the model say.

        Raises:
            InputError: see `Labels.decide`.
        """
        decision = form.get("decision", "")
        vignette = self._labels.decide(form.get("vignette_id", ""), decision)
        others = [(label, vignette.decisions.count(label)) for label in DECISION_LABELS if label in vignette.decisions]
        answer, problem = None, ""
        try:
            answer = verdict(self._agent.judge(vignette.present, vignette.absent), self._agent.model())
        except AgentError as error:  # the decision is written all the same
            problem = str(error)
        return self._pages.show(
            "labelled", vignette_id=vignette.vignette_id, findings=self._findings(vignette), decision=decision,
            others=others, verdict=answer, problem=problem, labels_done=self._labels.done, total=self._labels.total,
        )  # fmt: skip

    def _findings(self, vignette: Vignette) -> Findings:
        evidence = self._agent.model().evidence

        def names(codes: tuple[str, ...], kind: str) -> list[str]:
            entries = (evidence.get(code) or Evidence(code, "symptom", code, code) for code in codes)
            return [entry.name for entry in entries if entry.kind == kind]

        denied = [f"not: {name}" for name in names(vignette.absent, "risk_factor")]
        return Findings(
            patient=names(vignette.present, "risk_factor") + denied,
            present=names(vignette.present, "symptom"),
            absent=names(vignette.absent, "symptom"),
        )
