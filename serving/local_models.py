"""Models that this process loads itself, from a model base path."""

import logging
import pathlib

from serving import warmup
from serving.engine import SavedModelEngine
from serving.litert_engine import LiteRtEngine
from serving.model_directory import list_versions

_LOGGER = logging.getLogger(__name__)


class LocalModels:
    """Finds versions below a model base path, and loads them into this process.

    Args:
        litert: whether LiteRT answers small batches.
    """

    def __init__(self, litert: bool = True):
        self._litert = litert

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Returns the folder of each version that can be loaded.

        Raises:
            InputError: the base path cannot be read.
        """
        return list_versions(base)

    def load(self, folder: pathlib.Path) -> SavedModelEngine:
        """Returns the engine of a version, warm.

        Raises:
            InputError: the version is damaged, or does not answer its own warm-up requests.
        """
        engine = LiteRtEngine(folder) if self._litert else SavedModelEngine(folder)
        requests = warmup.run_requests(engine, folder)
        warmup.warm_up(engine)
        _LOGGER.info("version %s: loaded, %d warm-up requests answered", engine.info.model_version, requests)
        return engine
