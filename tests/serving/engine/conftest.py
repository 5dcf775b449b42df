"""A source of versions that are no models."""

import pathlib
import types

from schemas.errors import InputError


class Engine:
    def __init__(self, folder):
        self.folder = folder
        self.info = types.SimpleNamespace(model_version=folder.name)


class Folders:
    """A source of real folders that loads each whose file says so, and counts its attempts."""

    def __init__(self, base):
        self.base = base
        base.mkdir()
        self.loads = []
        self.offline = False
        self.before_load = lambda folder: None

    def put(self, number, content="good"):
        (self.base / str(number)).mkdir(exist_ok=True)
        (self.base / str(number) / "model").write_text(content)

    def remove(self, number):
        (self.base / str(number) / "model").unlink()
        (self.base / str(number)).rmdir()

    def versions(self, base):
        if self.offline:
            raise InputError(f"{base}: cannot read the model base path")
        return {int(folder.name): folder for folder in pathlib.Path(base).iterdir()}

    def load(self, folder):
        self.loads.append(int(folder.name))
        self.before_load(folder)
        content = (folder / "model").read_text()
        if content != "good":
            raise InputError(f"{folder}: damaged")
        return Engine(folder)
