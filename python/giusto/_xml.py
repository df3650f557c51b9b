"""XML whose elements know their lines."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Dict, Iterator, List, Optional, Tuple, Union
from xml.parsers import expat

from ._errors import InputError, unreadable


class Element:
    """An element of a file: its name (without a namespace's), attributes, and the elements within it."""

    def __init__(self, file: str, line: int, tag: str, attributes: Dict[str, str]) -> None:
        self.file = file
        self.line = line
        self.tag = tag
        self.attributes = attributes
        self.inner: List[Element] = []

    def all(self, *tags: str) -> Iterator[Element]:
        """The elements below that path of names."""
        for element in self.inner:
            if element.tag == tags[0]:
                if len(tags) == 1:
                    yield element
                else:
                    yield from element.all(*tags[1:])

    def one(self, tag: str) -> Element:
        """The first of that name within it, which has to be there."""
        for element in self.all(tag):
            return element
        raise self.bad(f"{self.tag!r} has no {tag!r}")

    def bad(self, why: str) -> InputError:
        """What is wrong with it, with its line."""
        return InputError(f"{self.file}:{self.line}: {why}", file=self.file, line=self.line)

    def text(self, key: str) -> str:
        """An attribute that has to be there."""
        if key not in self.attributes:
            raise self.bad(f"{self.tag!r} has no {key!r}")
        return self.attributes[key]

    def number(self, key: str, default: Optional[str] = None) -> Fraction:
        """The same as a number from 0, exactly as it is written."""
        text = self.text(key) if default is None else self.attributes.get(key, default)
        try:
            number = Fraction(text)
        except (ValueError, ZeroDivisionError):
            number = Fraction(-1)
        if number < 0:
            raise self.bad(f"{key!r} is {text!r}; expected a number from 0")
        return number

    def ns(self, key: str, unit: int, default: Optional[str] = None) -> int:
        """The same in ns; the file's unit is so many."""
        ns = self.number(key, default) * unit
        if ns.denominator != 1:
            raise self.bad(f"{key!r} is no whole number of ns")
        return int(ns)


def read(path: Union[str, "os.PathLike[str]"], *roots: str) -> Element:
    """The root of a file, which is one of ``roots``."""
    file = os.fspath(path)
    parser = expat.ParserCreate(namespace_separator=" ")
    top = Element(file, 1, "", {})
    open_: List[Element] = [top]

    def local(name: str) -> str:
        return name.rpartition(" ")[2]

    def start(name: str, attributes: Dict[str, str]) -> None:
        element = Element(file, parser.CurrentLineNumber, local(name), {local(key): text for key, text in attributes.items()})
        open_[-1].inner.append(element)
        open_.append(element)

    def end(_: str) -> None:
        open_.pop()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    try:
        source = open(file, "rb")  # noqa: SIM115
    except OSError as error:
        raise unreadable(file, error) from None
    with source:
        try:
            parser.ParseFile(source)
        except expat.ExpatError as error:
            place: Tuple[int, int] = (error.lineno, error.offset + 1)
            why = expat.ErrorString(error.code)
            raise InputError(f"{file}:{place[0]}:{place[1]}: {why}", file=file, line=place[0], column=place[1]) from None
    root = top.inner[0]
    if root.tag not in roots:
        raise root.bad(f"expected {' or '.join(map(repr, roots))}, not {root.tag!r}")
    return root
