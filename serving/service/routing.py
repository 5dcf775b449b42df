"""Which version answers a call of the typed service, and which versions answer it again for comparison."""

import collections
import concurrent.futures
import contextlib
import logging
import random
import threading
from collections.abc import Iterator, Sequence

from schemas.errors import InputError
from serving.engine.engine import Engine
from serving.engine.versions import Versions
from serving.errors import NotFoundError
from serving.messages import action_label
from serving.telemetry import Telemetry
from triage.v1 import triage_pb2

_LOGGER = logging.getLogger(__name__)

CANARY = "canary"
"""The label of the version that answers a share of the calls."""
SHADOW = "shadow"
"""The label of the version that answers every call again; its answers are compared and dropped."""

_MAX_WAITING = 64
"""Calls that may wait for a comparison; further calls are not compared, so that comparing slows nobody down."""


class Routing:
    """Chooses the version for each call; its methods may be called from any thread.

    Args:
        versions: the loaded versions and their labels.
        canary_percent: share of the calls that the version labelled "canary" answers, 0 to 100.
        chance: draws numbers in [0, 1); by default the system's random source.
        telemetry: records comparisons.

    Attributes:
        comparisons: the thread in which other versions answer; to shut it down waits for them.
    """

    def __init__(
        self,
        versions: Versions,
        canary_percent: float = 0.0,
        chance: random.Random | None = None,
        telemetry: Telemetry | None = None,
    ):
        self._versions = versions
        self._canary_share = canary_percent / 100
        self._chance = chance or random.SystemRandom()
        self._telemetry = telemetry or Telemetry()
        self.comparisons = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="shadow")
        self._places = threading.BoundedSemaphore(_MAX_WAITING)
        self._compared = 0  # only the one thread of comparisons touches these
        self._differing = 0

    def borrow(self, canary: bool = True) -> contextlib.AbstractContextManager[Engine]:
        """Lends the canary's engine for its share of the calls, otherwise, or without a canary, the default version's.

        Args:
            canary: whether the canary may answer this call.

        Raises:
            UnavailableError: no version is loaded.
        """
        if canary and self._canary_share and self._chance.random() < self._canary_share:
            return self._borrow_canary()
        return self._versions.borrow_default()

    @contextlib.contextmanager
    def _borrow_canary(self) -> Iterator[Engine]:
        with contextlib.ExitStack() as stack:
            engine: Engine | None = None
            with contextlib.suppress(InputError, NotFoundError):
                engine = stack.enter_context(self._versions.borrow(self._versions.version_of(CANARY)))
            yield engine or stack.enter_context(self._versions.borrow_default())

    def show(self, states: Sequence[triage_pb2.EvidenceState], responses: Sequence[triage_pb2.TriageResponse]) -> None:
        """Lets other versions answer the same states later: the shadow, and for the canary's answers the default.

        The log reports where the shadow decides differently, without evidence; metrics count both comparisons.
        """
        others = self._others(responses[0].model_version)
        if not others:
            return
        copies = [triage_pb2.EvidenceState.FromString(state.SerializeToString()) for state in states]
        actions = [response.action for response in responses]
        for role, other in others:
            if self._places.acquire(blocking=False):
                self.comparisons.submit(self._compare, role, other, copies, actions, responses[0].model_version)

    def _others(self, version: str) -> list[tuple[str, int]]:
        """Returns the versions that are to answer again what `version` answered, each with its role."""
        labels = self._versions.labels
        others = [(SHADOW, labels[SHADOW])] if SHADOW in labels else []
        default = self._versions.default
        if self._canary_share and self._telemetry.metrics and str(labels.get(CANARY)) == version != str(default):
            others += [] if default is None else [(CANARY, default)]
        return others

    def _compare(
        self,
        role: str,
        other_version: int,
        states: list[triage_pb2.EvidenceState],
        actions: Sequence[int],
        version: str,
    ) -> None:
        try:
            with self._versions.borrow(other_version) as engine:
                answers = engine.triage(states)
            both = [(action, answer.action) for action, answer in zip(actions, answers, strict=True)]
            versions = (version, engine.info.model_version)
            self._telemetry.record_comparison(self._versions.model_name, role, versions, both)
            if role != SHADOW:
                return
            pairs = collections.Counter(pair for pair in both if pair[0] != pair[1])
            self._compared += len(actions)
            self._differing += pairs.total()
            for (action, other), count in sorted(pairs.items()):
                _LOGGER.warning(
                    "%s: shadow version %s decides %s where %s decides %s, %d times in a call; %d of %d differ so far",
                    self._versions.model_name, engine.info.model_version, action_label(other), version,
                    action_label(action), count,
                    self._differing, self._compared,
                )  # fmt: skip
        except (InputError, NotFoundError):
            pass  # the version has been unloaded meanwhile
        except Exception as error:  # its message may hold evidence
            name = SHADOW if role == SHADOW else "default"
            _LOGGER.error("%s: the %s version failed: %s", self._versions.model_name, name, type(error).__qualname__)
        finally:
            self._places.release()
