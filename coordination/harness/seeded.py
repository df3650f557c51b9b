"""Servers with a deliberate fault, which the campaign must find: our class with a few words changed, compiled beside the jar. Nothing
of it is in the product."""
import subprocess

from ensemble import LIB, ROOM

SOURCE = ROOM / "server" / "src" / "main" / "java" / "org" / "apache" / "zookeeper" / "server" / "quorum" / "EpochStore.java"
PATCHES = {
    # NEWLEADER is acknowledged before currentEpoch is on the disk, where it comes some seconds later.
    "entry-gate-removed": [(
        "            files.force(CURRENT, epoch);\n",
        "            java.util.concurrent.CompletableFuture.delayedExecutor(5, java.util.concurrent.TimeUnit.SECONDS)\n"
        "                .execute(() -> unforced(CURRENT, epoch));\n")],
    # LEADERINFO is answered while the reservation may still be on its way.
    "promise-gate-removed": [
        ("synchronized void promise(", "void promise("),
        ("mode == Mode.STRICT || durable < epoch)", "mode == Mode.STRICT)")],
    # What was to be reserved is taken for reserved.
    "reservation-skipped": [("            files.force(ACCEPTED, epoch);\n            durable = epoch;\n        } catch (IOException e) {",
                             "            if (epoch < 0) {\n                throw new IOException();\n            }\n"
                             "            durable = epoch;\n        } catch (IOException e) {")],
}


def classes(name, directory):
    """Compiles a patched class; the directory to put before the jar."""
    text = SOURCE.read_text()
    for old, new in PATCHES[name]:
        if text.count(old) != 1:
            raise SystemExit(f"seeded.py: {name} does not fit {SOURCE}: {text.count(old)} places for {old!r}")
        text = text.replace(old, new)
    patched = directory / "EpochStore.java"
    patched.write_text(text)
    jar = next(LIB.glob("giusto-zookeeper-*.jar"))
    subprocess.run(["javac", "-nowarn", "-cp", f"{jar}:{LIB / 'lib'}/*", "-d", directory / "classes", patched], check=True)
    return directory / "classes"
