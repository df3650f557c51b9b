"""Answers of calculators: what the command line prints as JSON, with attributes of Python's types."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any, Callable, Dict, List, Mapping, Tuple, Type, TypeVar, Union, get_type_hints

A = TypeVar("A", bound="Answer")
Convert = Callable[[Any], Any]

_CONVERTERS: Dict[type, Dict[str, Convert]] = {}


def _converter(hint: Any) -> Convert:
    """How a value of JSON becomes one of the type ``hint``."""
    origin: Any = getattr(hint, "__origin__", None)
    inner: Any = getattr(hint, "__args__", ())
    if origin is Union and type(None) in inner:
        one = _converter(next(each for each in inner if each is not type(None)))
        return lambda value: None if value is None else one(value)
    if origin in (list, List):
        each = _converter(inner[0])
        return lambda values: [each(value) for value in values]
    if hint is Fraction or (isinstance(hint, type) and issubclass(hint, Answer)):
        return hint  # type: ignore[no-any-return]
    return lambda value: value


def _converters(of: type) -> Dict[str, Convert]:
    if of not in _CONVERTERS:
        hints = {name: hint for name, hint in get_type_hints(of).items() if not name.startswith("_")}
        _CONVERTERS[of] = {name: _converter(hint) for name, hint in hints.items()}
    return _CONVERTERS[of]


class Answer:
    """An answer. Times are whole ns, bandwidths :class:`fractions.Fraction`, probabilities and shares of requests ``float``.

    Attributes are converted when they are looked at, so that a million answers cost little. A name that Python does not
    allow ends with an underscore (``from_``).
    """

    _json: Mapping[str, Any]

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._json = fields

    @classmethod
    def _read(cls: Type[A], text: str) -> A:
        return cls(json.loads(text))

    def __getattr__(self, name: str) -> Any:
        convert = None if name.startswith("_") else _converters(type(self)).get(name)
        if convert is None:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        value = convert(self._json.get(name.rstrip("_")))
        self.__dict__[name] = value
        return value

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *_converters(type(self))})

    def to_dict(self) -> Dict[str, Any]:
        """As the command line's ``--json`` prints it."""
        return dict(self._json)

    def to_json(self) -> str:
        """The same as a text."""
        return json.dumps(self._json, indent=2)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._json == getattr(other, "_json", None)

    def __hash__(self) -> int:
        return hash(json.dumps(self._json, sort_keys=True))

    def __reduce__(self) -> Tuple[Any, ...]:
        return (type(self), (dict(self._json),))

    def _shown(self) -> List[Tuple[str, str]]:
        # Of a question that is answered by yes or no, first that.
        shown = [("holds", repr(bool(self)))] if hasattr(type(self), "__bool__") else []
        for name in _converters(type(self)):
            value = getattr(self, name)
            if value is None or isinstance(value, (list, dict, Answer)):
                continue
            shown.append((name, str(value) if isinstance(value, Fraction) else repr(value)))
        return shown

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._shown())})"

    def _repr_html_(self) -> str:
        from html import escape

        rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self._shown())
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"
