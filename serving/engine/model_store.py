"""A model base path in an object store (`gs://`), whose complete versions are copied to this machine."""

import contextlib
import pathlib
import shutil
import tempfile
import weakref
from typing import TYPE_CHECKING

from schemas import directories
from schemas.errors import InputError
from triage_runtime.storage import locations

if TYPE_CHECKING:  # TensorFlow loads only when a store is read
    from serving.engine.engine import Engine
    from serving.engine.watcher import VersionSource

_PARTIAL = "fetching"


class ModelStore:
    """A local folder that mirrors a model base path in an object store.

    A version is complete once it has a saved_model.pb, which is uploaded last. It is not expected to change after that:
    another model needs another number.

    Args:
        uri: the base path.
        folder: the local folder, which must not exist yet.
    """

    def __init__(self, uri: str, folder: pathlib.Path):
        self.uri = uri
        self.folder = folder
        folder.mkdir(parents=True)

    def refresh(self) -> None:
        """Fetches new versions, and deletes those that are gone.

        Raises:
            InputError: the store cannot be read; the local versions stay.
        """
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


class StoredModels:
    """A source of versions that first updates a base path from an object store."""

    def __init__(self, source: "VersionSource", store: ModelStore):
        self._source = source
        self._store = store

    def versions(self, base: pathlib.Path) -> dict[int, pathlib.Path]:
        """Updates the base path and returns the folder of each version.

        Raises:
            InputError: the store cannot be read.
        """
        with self._named():
            self._store.refresh()
            return self._source.versions(base)

    def load(self, folder: pathlib.Path) -> "Engine":
        """Returns the engine of a version, warm."""
        with self._named():
            return self._source.load(folder)

    def _named(self) -> contextlib.AbstractContextManager[None]:
        return locations.standing_for({str(self._store.folder): self._store.uri})


def local_base(location: str) -> tuple[pathlib.Path, ModelStore | None]:
    """Returns the local folder of versions, and the store that it mirrors, if any; the folder ends with the store.

    Args:
        location: a local path, or the address of an object store.
    """
    if not locations.is_remote(location):
        return pathlib.Path(location), None
    scratch = tempfile.mkdtemp(prefix="triage-models-")
    store = ModelStore(location.rstrip("/"), pathlib.Path(scratch) / "models")
    weakref.finalize(store, shutil.rmtree, scratch, ignore_errors=True)
    return store.folder, store
