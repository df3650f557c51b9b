"""Images of containers without a registry and without a daemon: a docker archive with one layer.

The same files give the same bytes.
"""
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any


def layer(files: dict[str, Path | bytes]) -> bytes:
    """A layer with these files, by their paths in it: executable, of root, and old."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        folders: set[str] = set()
        for name in sorted(files):
            parts = name.split("/")[:-1]
            for depth in range(1, len(parts) + 1):
                folder = "/".join(parts[:depth])
                if folder not in folders:
                    folders.add(folder)
                    entry = tarfile.TarInfo(folder)
                    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(entry)
            source = files[name]
            data = source if isinstance(source, bytes) else source.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def archive(to: Path, name: str, files: dict[str, Path | bytes], entrypoint: list[str], **config: Any) -> None:
    """Writes the image `name` to a file that `ctr images import` reads."""
    content = layer(files)
    digest = hashlib.sha256(content).hexdigest()
    settings = {"Entrypoint": entrypoint, "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], **config}
    image = json.dumps({
        "architecture": "amd64", "os": "linux", "created": "1970-01-01T00:00:00Z", "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }, sort_keys=True).encode()
    called = hashlib.sha256(image).hexdigest() + ".json"
    manifest = json.dumps([{"Config": called, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]).encode()
    with tarfile.open(to, "w", format=tarfile.GNU_FORMAT) as tar:
        for path, data in ((called, image), (f"{digest}/layer.tar", content), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))


def libraries(program: Path) -> dict[str, Path | bytes]:
    """The shared libraries of a program, where its loader looks for them."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    found: dict[str, Path | bytes] = {}
    for word in listed.split():
        if word.startswith("/"):
            found[word.lstrip("/")] = Path(word)
    return found


def giusto(own: Path, program: Path) -> dict[str, Path | bytes]:
    """What agent and extender need: both programs, and what giusto is linked to."""
    return {"usr/bin/giusto-kubernetes": own, "usr/bin/giusto": program, **libraries(program)}
