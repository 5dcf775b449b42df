"""What supervisor and workers say to each other."""

import pickle

from serving.fleet.messages import Pinned, Report
from serving.models.versions import State, VersionStatus


def test_messages_survive_the_way_through_a_pipe():
    pinned = {"triage": Pinned(frozenset([3, 5]), {"stable": 3})}
    assert pickle.loads(pickle.dumps(pinned)) == pinned  # noqa: S301 (our own)
    report = Report("triage", 5, {"stable": 3}, (VersionStatus(3, State.AVAILABLE),))
    assert pickle.loads(pickle.dumps(report)) == report  # noqa: S301
    assert report.statuses() == [VersionStatus(3, State.AVAILABLE)]


def test_other_labels_are_other_versions_to_serve():
    assert Pinned(frozenset([3]), {}) != Pinned(frozenset([3]), {"stable": 3})
