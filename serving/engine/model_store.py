"""A model base path in an object store (`gs://`), whose complete versions are copied to this machine."""

import contextlib
import pathlib
import shutil
import tempfile
import weakref

from schemas import directories
from schemas.errors import InputError
from serving.engine.engine import Engine
from serving.engine.watcher import VersionSource
from triage_runtime.storage import locations

_PARTIAL = "fetching"


class StoredModels:
    """A source of versions that first makes a local folder mirror a model base path in an object store.

    It has the versions of that base path, whichever `versions` is asked about, and loads them by another source. A
    version is complete once it has a saved_model.pb, which is uploaded last. It is not expected to change after that:
    another model needs another number.
    """

    def __init__(self, source: VersionSource, uri: str):
        self._source, self.uri = source, uri
        scratch = tempfile.mkdtemp(prefix="triage-models-")
        weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
        self.folder = pathlib.Path(scratch) / "models"
        self.folder.mkdir()

    def versions(self, base: str) -> dict[int, pathlib.Path]:
        """Fetches new versions, deletes those that are gone, and returns the folder of each.

        Raises:
            InputError: the store cannot be read; the local versions stay.
        """
        with self._named():
            self._refresh()
            return self._source.versions(str(self.folder))

    def load(self, folder: pathlib.Path) -> Engine:
        """Returns the engine of a version, warm."""
        with self._named():
            return self._source.load(folder)

    def _refresh(self) -> None:
        with locations.store_errors(f"{self.uri}: cannot read the model base path"):
            names = locations.names(self.uri)
            if directories.SAVED_MODEL in names:
                raise InputError(f"{self.uri}: this is one version: give the folder that contains it")
            whole = {name.split("/")[0] for name in names if name.endswith(f"/{directories.SAVED_MODEL}")}
            versions = {name for name in whole if directories.version_number(name) is not None}
            here = {path.name for path in self.folder.iterdir()}
            for version in sorted(versions - here):
                self._fetch(version, [name for name in names if name.startswith(f"{version}/")])
        for version in here - versions:
            shutil.rmtree(self.folder / version, ignore_errors=True)

    def _fetch(self, version: str, names: list[str]) -> None:
        partial = self.folder.with_name(_PARTIAL)
        shutil.rmtree(partial, ignore_errors=True)
        try:
            for name in names:
                locations.fetch(self.uri, name, partial)
            (partial / version).rename(self.folder / version)
        finally:  # also after an error, such as a full disk
            shutil.rmtree(partial, ignore_errors=True)

    def _named(self) -> contextlib.AbstractContextManager[None]:
        return locations.standing_for({str(self.folder): self.uri})
