"""The clinical knowledge base: evidence catalogue, demographics of the risk factors, and conditions.

Written for this project from general clinical knowledge, for research and teaching only. No clinician has validated it,
and it must not be used to make decisions about a patient.
"""

import dataclasses
import functools
import hashlib
import importlib.resources
import itertools
import pathlib
from collections.abc import Mapping, Sequence

from schemas import synonyms
from schemas.bands import BAND
from schemas.catalogue import AGE, SEX, Catalogue
from schemas.conditions import MAX_MULTIPLIER, Condition, load_conditions, load_tables
from schemas.errors import InputError
from schemas.evidence import FLAGGED, RED_FLAG
from schemas.relations import ONLY_IF
from schemas.text_file import read_text

EVIDENCE = "evidence.csv"
SYNONYMS = "synonyms.csv"
"""What patients say for a piece of evidence. It changes no patient, so the fingerprint leaves it out."""
BANDS = "bands.csv"
"""The numbers for which a piece of evidence is present; likewise."""
RISK_FACTORS = "risk_factors.toml"
CONDITIONS = "conditions"

# Two conditions are indistinguishable if no probability of evidence differs by as much, and no multiplier of a risk
# factor by such a ratio.
MIN_DIFFERENCE = 0.1
MIN_RATIO = 3.0


@dataclasses.dataclass(frozen=True)
class KnowledgeBase:
    """What the simulator and its clinicians know. Made by `load`."""

    catalogue: Catalogue
    demographics: Mapping[str, Mapping[str, float]]
    """For each risk factor: how many times more frequent it is in an age band or sex than in one that is not listed."""
    conditions: tuple[Condition, ...]
    fingerprint: str
    """`sha256:` and 64 hexadecimal digits over the files that make patients."""

    def condition(self, code: str) -> Condition:
        """Returns the condition with a code.

        Raises:
            InputError: there is none.
        """
        for condition in self.conditions:
            if condition.code == code:
                return condition
        raise InputError(f"unknown condition {code!r}: triage knowledge --list shows all of them")

    @classmethod
    def load(cls, directory: pathlib.Path | None = None) -> "KnowledgeBase":
        """Reads and checks a knowledge base, by default that of the package.

        Raises:
            InputError: it has faults; the message has one line per fault.
        """
        if directory is None:
            return _packaged()
        paths = sorted((directory / CONDITIONS).glob("*.toml"))
        if not paths:
            raise InputError(
                f"{directory / CONDITIONS}: expected the conditions of a knowledge base, found no .toml file"
            )
        catalogue = Catalogue.load(directory / EVIDENCE)
        said, bands = directory / SYNONYMS, directory / BANDS
        if said.exists():
            phrases = synonyms.parse(read_text(said), str(said))
            catalogue = catalogue.with_column(synonyms.SYNONYMS, phrases, str(said))
        if bands.exists():
            cells = synonyms.parse(read_text(bands), str(bands), BAND)
            joined = {code: synonyms.join(each) for code, each in cells.items()}
            catalogue = catalogue.with_column(BAND, joined, str(bands))
        demographics = load_tables(directory / RISK_FACTORS)
        faults = [f"{directory / RISK_FACTORS}: {fault}" for fault in _demographic_faults(demographics, catalogue)]
        conditions: list[Condition] = []
        for path in paths:
            valid, condition_faults = load_conditions(path, catalogue)
            conditions += valid
            faults += condition_faults
        # With a faulty condition missing, cross checks would report others as faulty.
        faults = faults or [f"{directory}: {fault}" for fault in cross_faults(conditions, catalogue)]
        if faults:
            raise InputError("\n".join(faults))
        never = {
            code: [f"!{band}" for band, times in bands_of.items() if times == 0]
            for code, bands_of in demographics.items()
        }
        who = {entry.code: " ".join([*map("|".join, entry.only_if), *never.get(entry.code, [])]) for entry in catalogue}
        catalogue = catalogue.with_column(ONLY_IF, who, str(directory / RISK_FACTORS))
        flagged = {code: FLAGGED for condition in conditions for code in condition.red_flags}
        catalogue = catalogue.with_column(RED_FLAG, flagged, str(directory / CONDITIONS))
        files = (directory / EVIDENCE, directory / RISK_FACTORS, *paths)
        digest = hashlib.sha256(b"".join(path.name.encode() + b"\n" + path.read_bytes() for path in files))
        return cls(catalogue, demographics, tuple(conditions), f"sha256:{digest.hexdigest()}")


@functools.cache
def _packaged() -> KnowledgeBase:
    """Returns the knowledge base of the package, which stays the same while a program runs."""
    with importlib.resources.as_file(importlib.resources.files("schemas").joinpath("knowledge")) as directory:
        return KnowledgeBase.load(directory)


def cross_faults(conditions: Sequence[Condition], catalogue: Catalogue) -> list[str]:
    """Returns the faults between conditions, one sentence each."""
    codes = [condition.code for condition in conditions]
    faults = [f"condition {code!r} is defined twice" for code in sorted({c for c in codes if codes.count(c) > 1})]
    used = set(itertools.chain.from_iterable(_codes_of(condition) for condition in conditions))
    faults += [
        f"no condition uses the {entry.evidence.kind} {entry.code!r}" for entry in catalogue if entry.code not in used
    ]
    faults += [
        f"nothing distinguishes the conditions {one.code!r} and {other.code!r}: no evidence differs by "
        f"{MIN_DIFFERENCE}, no risk factor by a factor of {MIN_RATIO:g}"
        for one, other in itertools.combinations(conditions, 2)
        if not _distinguishable(one, other)
    ]
    return faults


def _codes_of(condition: Condition) -> set[str]:
    return {*condition.evidence, *condition.risk_factors, *condition.urgent_with, *condition.requires}


def _distinguishable(one: Condition, other: Condition) -> bool:
    if set(one.requires) != set(other.requires):
        return True
    return any(
        abs(one.evidence.get(code, 0.0) - other.evidence.get(code, 0.0)) >= MIN_DIFFERENCE
        for code in {*one.evidence, *other.evidence}
    ) or any(
        _ratio(one.risk_factors.get(code, 1.0), other.risk_factors.get(code, 1.0)) >= MIN_RATIO
        for code in {*one.risk_factors, *other.risk_factors}
    )


def _ratio(a: float, b: float) -> float:
    low, high = sorted((a, b))
    return high / low if low else (1.0 if not high else float("inf"))


def _demographic_faults(tables: Mapping[str, Mapping[str, float]], catalogue: Catalogue) -> list[str]:
    faults = []
    bands = {entry.code for group in (AGE, SEX) for entry in catalogue.group(group)}
    for code, multipliers in tables.items():
        if code not in catalogue or catalogue[code].evidence.kind != "risk_factor" or code in bands:
            faults.append(f"{code}: expected a risk factor other than an age band or a sex")
        for band, value in multipliers.items():
            if band not in bands:
                faults.append(f"{code}: {band!r} is neither an age band nor a sex")
            if not isinstance(value, int | float) or not 0 <= value <= MAX_MULTIPLIER:
                faults.append(f"{code}: {band}: multiplier {value!r}: expected 0 to {MAX_MULTIPLIER:g}")
    return faults
