"""Servers with a deliberate fault, which the campaign must find: our class with a few words changed, compiled beside the jar. Nothing
of it is in the product."""
import subprocess

from ensemble import LIB, ROOM

SOURCES = ROOM / "server" / "src" / "main" / "java" / "org" / "apache" / "zookeeper" / "server" / "quorum"
# By name: the class, and what of it is replaced by what.
PATCHES = {
    # NEWLEADER is acknowledged before currentEpoch is on the disk, where it comes some seconds later.
    "entry-gate-removed": ("EpochStore", [(
        "            files.force(CURRENT, epoch);\n",
        "            java.util.concurrent.CompletableFuture.delayedExecutor(5, java.util.concurrent.TimeUnit.SECONDS)\n"
        "                .execute(() -> unforced(CURRENT, epoch));\n")]),
    # LEADERINFO is answered while the reservation may still be on its way.
    "promise-gate-removed": ("EpochStore", [
        ("synchronized void promise(", "void promise("),
        ("mode == Mode.STRICT || durable < epoch)", "mode == Mode.STRICT)")]),
    # What was to be reserved is taken for reserved.
    "reservation-skipped": ("EpochStore", [(
        "            files.force(ACCEPTED, epoch);\n            durable = epoch;\n        } catch (IOException e) {",
        "            if (epoch < 0) {\n                throw new IOException();\n            }\n"
        "            durable = epoch;\n        } catch (IOException e) {")]),
    # As stock: an epoch's file is forced, its name is not.
    "names-not-forced": ("EpochFiles", [("            channel.force(true);\n", "")]),
}


def classes(name, directory):
    """Compiles a patched class; the directory to put before the jar."""
    which, changes = PATCHES[name]
    source = SOURCES / f"{which}.java"
    text = source.read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise SystemExit(f"seeded.py: {name} does not fit {source}: {text.count(old)} places for {old!r}")
        text = text.replace(old, new)
    patched = directory / source.name
    patched.write_text(text)
    jar = next(LIB.glob("giusto-zookeeper-*.jar"))
    subprocess.run(["javac", "-nowarn", "-cp", f"{jar}:{LIB / 'lib'}/*", "-d", directory / "classes", patched], check=True)
    return directory / "classes"
