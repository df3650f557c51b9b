"""Sites: hosts, services, and what each was promised."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Union

from ._giusto import SiteData, time
from ._words import Task


class Site:
    """A site. Made by :meth:`from_yaml`, :meth:`from_text`, :meth:`from_dict`, or by keyword:

    >>> site = Site(hosts={"edge-1": {"cores": "0-1"}},
    ...             services={"cache": {"start": "redis-server", "promise": {"supply": "3ms/10ms"}}})
    >>> site.services
    ['cache']

    The keys are those of a site file (formats/site.md); a task may be a :class:`giusto.Task`, whose whole numbers are ns, and
    cores an array. What makes no sense raises :class:`giusto.SiteError` with line and column.
    """

    def __init__(self, *, hosts: Mapping[str, Any], services: Mapping[str, Any], **more: Any) -> None:
        keys: Dict[str, Any] = {"giusto": 1, "hosts": hosts, "services": services}
        keys.update({name.replace("_", "-"): value for name, value in more.items()})
        self._data = SiteData.parse("<site>", _yaml(keys))

    @classmethod
    def _of(cls, data: SiteData) -> Site:
        self = cls.__new__(cls)
        self._data = data
        return self

    @classmethod
    def from_yaml(cls, path: Union[str, "os.PathLike[str]"]) -> Site:
        """The site in a file."""
        return cls._of(SiteData.read(os.fspath(path)))

    @classmethod
    def from_text(cls, text: str, name: str = "<site>") -> Site:
        """The site in a text; ``name`` stands for its file in errors, and files that it names are looked for beside it."""
        return cls._of(SiteData.parse(name, text))

    @classmethod
    def from_dict(cls, keys: Mapping[str, Any]) -> Site:
        """The site of nested dictionaries, as a YAML or JSON reader returns them. ``giusto: 1`` may be left out."""
        return cls._of(SiteData.parse("<site>", _yaml({"giusto": 1, **{k: v for k, v in keys.items() if k != "giusto"}})))

    @property
    def hosts(self) -> Dict[str, List[int]]:
        """Each host with the cores that may be given to services."""
        return dict(self._data.hosts)

    @property
    def services(self) -> List[str]:
        """Their names, in the order of the site."""
        return [name for name, _ in self._data.services]

    @property
    def promises(self) -> Dict[str, str]:
        """What each service was promised, in words."""
        return dict(self._data.services)

    def to_yaml(self) -> str:
        """The text that it was read from, or its keys as JSON, which is YAML, too."""
        return self._data.text

    def __repr__(self) -> str:
        return f"<Site {self._data.name}: {len(self.hosts)} hosts, {len(self.services)} services>"


def _yaml(keys: Mapping[str, Any]) -> str:
    """JSON, which YAML has within itself: a line a value, so that errors have a line to name."""
    return _lines(keys, 0) + "\n"


def _lines(value: Any, depth: int) -> str:
    if isinstance(value, Mapping) and value:
        inner = "\n".join(f"{' ' * 2 * depth}{_scalar(str(key))}: {_nested(each, depth)}" for key, each in value.items())
        return inner
    return _flow(value)


def _nested(value: Any, depth: int) -> str:
    if isinstance(value, Mapping) and value:
        return "\n" + _lines(value, depth + 1)
    return _flow(value)


def _scalar(text: str) -> str:
    plain = text.replace("-", "").replace("_", "").isalnum() and not text[0].isdigit()
    return text if plain else json.dumps(text)


def _flow(value: Any) -> str:
    if isinstance(value, Task):
        value = _keys(value)
    elif hasattr(value, "tolist"):
        value = value.tolist()  # of NumPy
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(_flow(each) for each in value) + "]"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return json.dumps(value if isinstance(value, bool) or value is None else str(value), ensure_ascii=False)
    return str(value)


def _keys(task: Task) -> Dict[str, Any]:
    """The keys of a task in a site."""
    given = {key: value for key, value in task._asdict().items() if value is not None}
    times = {key: value if isinstance(value, str) else f"{time(value)}ns" for key, value in given.items() if key != "copies"}
    return {**times, "copies": task.copies}
