"""Folders of a tree that others change meanwhile, as cgroups are; pathlib's glob ends with an error there."""
import os
from fnmatch import fnmatch
from pathlib import Path


def folders(top, pattern="*"):
    """Every folder from `top` down, itself included, whose name matches `pattern`, sorted; those that vanish are left out."""
    return sorted(Path(at) for at, _, _ in os.walk(top) if fnmatch(os.path.basename(at), pattern))
