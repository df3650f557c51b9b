"""`giusto export podman` and `docker`, applied to a real engine (another one every day, or GIUSTO_ENGINE), and `adopt:
{container: NAME}`: shares of a core measured without anything,
with the flags, with the script for containers that run, and under `giusto run`, which finds containers again when they are
started again or made anew. Images are made of busybox alone; no registry, no network.
Needs root; exit code 77 where the engine cannot be had.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
from pathlib import Path

import taken
from patient import Patient

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = ROOT / "target" / "release" / "giusto"
CORE = max(os.sched_getaffinity(0))
IMAGE = "giusto-test"
SITE = f"""giusto: 1
hosts: {{edge-1: {{cores: {CORE}}}}}
services:
  search: {{adopt: {{container: giusto-search}}, promise: {{supply: 30ms/100ms}}}}
  sensor: {{adopt: {{container: giusto-sensor}}, promise: {{supply: 20ms/100ms}}}}
  batch: {{adopt: {{container: giusto-batch}}, promise: leftovers, at-most: 25%}}
"""
NAMES = ("search", "sensor", "batch")
PROMISED = {"search": 0.3, "sensor": 0.2}


class CannotRun(Exception):
    """This machine cannot run containers; why."""


def until(what, holds, patience=30):
    end = time.monotonic() + patience
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(0.1)
    return found


def install(programs, packages):
    """Installs what is missing. Errors: CannotRun."""
    if all(map(shutil.which, programs)):
        return
    subprocess.run(["apt-get", "update", "-qq"], stdout=subprocess.DEVNULL)
    words = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages, "python3-yaml"]
    if subprocess.run(words, stdout=subprocess.DEVNULL, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}).returncode:
        raise CannotRun(f"{packages[0]} cannot be installed from this machine's package mirror")


class Engine:
    """An engine with a store of its own, and its service on the socket where Giusto looks."""

    def __init__(self, folder):
        if self.socket.exists():
            raise CannotRun(f"another {self.name} serves {self.socket}")
        self.environment = dict(os.environ)
        service = self.prepare(folder)
        self.made = not self.socket.parent.exists()
        self.socket.parent.mkdir(exist_ok=True)
        self.service = subprocess.Popen(
            service, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment
        )
        until(f"{self.name} listens", self.socket.exists)
        archive = folder / "image.tar"
        with tarfile.open(archive, "w") as tar:
            tar.add("/bin/busybox", "bin/busybox")
            for name in ("sh", "sleep", "chrt"):
                link = tarfile.TarInfo(f"bin/{name}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
        self("import", archive, IMAGE)

    def __call__(self, *words, check=True):
        done = subprocess.run(
            [*self.words, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, env=self.environment
        )
        if check and done.returncode:
            raise AssertionError(f"{self.name} {' '.join(map(str, words))}: {done.stderr}")
        return done.stdout.strip()

    def run(self, name, *flags):
        self("run", "-d", "--network=none", "--name", f"giusto-{name}", *flags, IMAGE, "/bin/sh", "-c", "while :; do :; done")

    def remove(self, name, check=True):
        self(*self.at_once, f"giusto-{name}", check=check)

    def real_time(self, name):
        """Lets its threads be real-time threads, as --cpu-rt-runtime does, where the kernel has real-time groups (cgroup v1)."""
        parent = Path("/sys/fs/cgroup/cpu") / self.parent
        if not (parent / "cpu.rt_runtime_us").exists():
            return
        path = next(
            line.split(":")[2]
            for line in Path(f"/proc/{self.pid(name)}/cgroup").read_text().splitlines()
            if line.split(":")[1] == "cpu"
        )
        for group, runtime in ((parent, 900_000), (Path(f"/sys/fs/cgroup/cpu{path}"), 450_000)):
            (group / "cpu.rt_runtime_us").write_text(str(runtime))

    def pid(self, name):
        return int(self("inspect", "--format", "{{.State.Pid}}", f"giusto-{name}"))

    def close(self):
        for name in NAMES:
            self.remove(name, check=False)
        self.service.terminate()
        self.service.wait()
        self.socket.unlink(missing_ok=True)
        if self.made:
            self.socket.parent.rmdir()
        for parent in Path("/sys/fs/cgroup").glob(f"**/{self.parent}"):
            for below in sorted(parent.glob("**/"), reverse=True):
                with contextlib.suppress(OSError):
                    below.rmdir()


class Podman(Engine):
    name, socket, parent = "podman", Path("/run/podman/podman.sock"), "libpod_parent"
    at_once = ("rm", "-f", "-t", "0")  # else it asks first, and waits ten seconds

    def prepare(self, folder):
        install(("podman", "runc"), ("podman", "runc"))
        self.words = ["/usr/bin/podman", "--root", folder / "root", "--runroot", folder / "run", "--cgroup-manager", "cgroupfs"]
        self.words += ["--events-backend", "file", "--storage-driver", "vfs", "--runtime", "runc"]
        # What this machine may give: an engine asks for more open files than it may have itself.
        configuration = folder / "containers.conf"
        configuration.write_text('[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n')
        self.environment["CONTAINERS_CONF"] = str(configuration)
        return [*self.words, "system", "service", "--time=0", f"unix://{self.socket}"]


class Docker(Engine):
    name, socket, parent = "docker", Path("/run/docker.sock"), "docker"
    at_once = ("rm", "-f")

    def prepare(self, folder):
        install(("dockerd", "/usr/bin/docker"), ("docker.io",))
        self.words = ["/usr/bin/docker", "-H", f"unix://{self.socket}"]
        # A network of its own is what it does not get.
        words = ["dockerd", "--data-root", folder / "root", "--exec-root", folder / "run", "--pidfile", folder / "pid"]
        words += ["-H", f"unix://{self.socket}", "--storage-driver", "vfs", "--exec-opt", "native.cgroupdriver=cgroupfs"]
        return [*words, "--iptables=false", "--ip6tables=false", "--bridge=none"]


# Both in the soak; else another one every day.
ENGINES = {engine.name: engine for engine in (Podman, Docker)}
TODAY = list(ENGINES)[int(time.time()) // 86400 % len(ENGINES)]
NAME = os.environ.get("GIUSTO_ENGINE", TODAY)


def cpu_time(pid):
    """Of a process, in ns."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


class Exports(Patient):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="giusto-containers-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.engine = ENGINES[NAME](cls.folder)
        cls.addClassCleanup(cls.engine.close)
        cls.site = cls.folder / "site.yaml"
        cls.site.write_text(SITE)
        subprocess.run([GIUSTO, "export", NAME, cls.site, "--out", cls.folder / "out"], check=True, stdout=subprocess.DEVNULL)
        cls.out = cls.folder / "out" / "edge-1"

    def setUp(self):
        for name in NAMES:
            self.engine.remove(name, check=False)
        shutil.rmtree(self.out / "found", ignore_errors=True)

    def shares(self, what, seconds=3):
        """Of a core, and what others took of the core meanwhile."""
        pids = {name: self.engine.pid(name) for name in NAMES}
        begin, before, busy = time.monotonic_ns(), {name: cpu_time(pid) for name, pid in pids.items()}, taken.busy(CORE)
        time.sleep(seconds)
        after, elapsed = {name: cpu_time(pid) for name, pid in pids.items()}, time.monotonic_ns() - begin
        shares = {name: (after[name] - before[name]) / elapsed for name in NAMES}
        others = (taken.busy(CORE) - busy) / elapsed - sum(shares.values())
        print(
            f"{what}: {', '.join(f'{name} {share:.3f}' for name, share in shares.items())} of a core; others took "
            f"{max(others, 0):.3f} of core {CORE}",
            flush=True,
        )
        return shares, others

    def kept(self, measured, whatever=False):
        """What is promised to each, and no more; unless `whatever` others do, only where they keep off the core, as the flags
        say."""
        shares, others = measured
        for name, share in PROMISED.items():
            self.assertLess(shares[name], 1.15 * share, name)
            if whatever or others < 0.05:
                self.assertGreater(shares[name], 0.85 * share, name)
        self.assertLess(shares["batch"], 0.25 * 1.15)

    def quota(self, name):
        """Of each period, as the kernel has it."""
        path = next(
            line.split(":")[2]
            for line in Path(f"/proc/{self.engine.pid(name)}/cgroup").read_text().splitlines()
            if "cpu" in line.split(":")[1].split(",") or line.startswith("0::") and not line.endswith(":/")
        )
        for root in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"):
            if (file := Path(f"{root}{path}/cpu.cfs_quota_us")).exists():
                return int(file.read_text()) / int((file.parent / "cpu.cfs_period_us").read_text())
        quota, period = Path(f"/sys/fs/cgroup{path}/cpu.max").read_text().split()
        return -1 if quota == "max" else int(quota) / int(period)

    def limited(self, name):
        """Podman takes no quota away: one of all cores is none."""
        return 0 < self.quota(name) < os.cpu_count()

    def shares_of(self, name):
        """The weight as an engine counts, as the kernel has it."""
        for line in Path(f"/proc/{self.engine.pid(name)}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            for root in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"):
                if "cpu" in controllers.split(",") and (file := Path(f"{root}{path}/cpu.shares")).exists():
                    return int(file.read_text())
            if (file := Path(f"/sys/fs/cgroup{path}/cpu.weight")).exists():
                return {100: 1024, 39: 1024}.get(int(file.read_text()))
        return None

    def program(self):
        """The engine with its own store."""
        program = self.folder / "bin" / NAME
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\nexec " + " ".join(map(str, self.engine.words)) + ' "$@"\n')
        program.chmod(0o755)
        return program

    def script(self, name, program, check=True):
        environment = {**self.engine.environment, "PATH": f"{program.parent}:{os.environ['PATH']}"}
        done = subprocess.run([self.out / name], capture_output=True, text=True, env=environment)
        if check:
            self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def flags(self, name, folder=None):
        return [line for line in ((folder or self.out) / f"{name}.flags").read_text().splitlines() if not line.startswith("#")]

    def test_flags_make_containers_that_have_their_shares(self):
        for name in NAMES:
            self.engine.run(name)
        self.shares("without flags")
        self.assertLess(max(self.quota(name) for name in NAMES), 0, "nothing limits them without flags")
        for name in NAMES:
            self.engine.remove(name)
            self.engine.run(name, *self.flags(name))
        for name in NAMES:
            allowed = Path(f"/proc/{self.engine.pid(name)}/status").read_text().split("Cpus_allowed_list:\t")[1].split()[0]
            self.assertEqual(allowed, str(CORE), name)
        self.assertEqual([self.quota(name) for name in NAMES], [0.3, 0.2, 0.25])
        self.kept(self.shares("with flags"))

    def test_the_script_sets_containers_that_run(self):
        for name in NAMES:
            self.engine.run(name)
        program = self.program()
        self.script("update.sh", program)
        self.kept(self.shares("set while they run"))

        self.assertEqual([self.quota(name) for name in NAMES], [0.3, 0.2, 0.25])
        words = [GIUSTO, "export", NAME, self.site, "--out", self.folder / "out"]
        again = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(again.returncode, 2)
        self.assertIn("is applied", again.stderr)
        self.script("undo.sh", program)
        self.assertFalse((self.out / "found").exists())
        for name in NAMES:
            self.assertFalse(self.limited(name), name)
            self.assertEqual(self.shares_of(name), 1024, name)
            self.assertEqual(len(os.sched_getaffinity(self.engine.pid(name))), os.cpu_count(), name)

    def test_the_script_sets_all_or_nothing(self):
        for name in NAMES[:2]:
            self.engine.run(name)
        program = self.program()
        done = self.script("update.sh", program, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("container giusto-batch does not run", done.stderr)
        self.assertFalse((self.out / "found").exists())
        self.engine.run("batch")
        # It fails at the last: what was set before is taken back.
        program.write_text(program.read_text().replace("exec ", 'case "$*" in update*giusto-batch) exit 1 ;; esac\nexec '))
        done = self.script("update.sh", program, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("all goes back", done.stderr)
        self.assertFalse(any(map(self.limited, NAMES)))
        self.assertFalse((self.out / "found").exists())

    def test_docker_keeps_what_it_was_told_by_cpus(self):
        if NAME != "docker":
            return
        for name in NAMES:
            self.engine.run(name, *(["--cpus=0.5"] if name == "batch" else []))
        done = self.script("update.sh", self.program(), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("container giusto-batch was started with --cpus", done.stderr)
        self.assertNotIn("goes back", done.stderr, "nothing is set before all is looked at")
        self.assertEqual([self.limited(name) for name in NAMES], [False, False, True])

    def test_weights_divide_a_core_where_nothing_is_capped(self):
        site = self.folder / "weights.yaml"
        text = SITE.replace("ms}}", "ms}, cap: soft}").replace("at-most: 25%", "at-least: 25%")
        site.write_text(text)
        words = [GIUSTO, "export", NAME, site, "--out", self.folder / "weights"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        for name in NAMES:
            self.engine.run(name, *self.flags(name, self.folder / "weights" / "edge-1"))
        self.assertLess(max(self.quota(name) for name in NAMES), 0)
        shares, _ = self.shares("by weights alone")
        # 30, 20 and 25 of 75, and not a third each.
        parts = {name: share / sum(shares.values()) for name, share in shares.items()}
        self.assertAlmostEqual(parts["search"], 0.4, delta=0.03)
        self.assertAlmostEqual(parts["sensor"], 0.267, delta=0.03)

    def test_files_of_another_export_are_not_mixed_in(self):
        out = self.folder / "mixed"
        words = [GIUSTO, "export", NAME, self.site, "--out", out]
        export = lambda: subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(export().returncode, 0)
        self.assertEqual(export().returncode, 0, "the same files")
        (out / "edge-1" / "old.flags").write_text("--cpuset-cpus=0\n")
        done = export()
        self.assertEqual(done.returncode, 2)
        self.assertIn("old.flags; expected none", done.stderr)

    def test_what_is_lost_stands_beside_each_setting(self):
        text = " ".join((self.out / "search.flags").read_text().replace("#", " ").split())
        for words in (
            "KEPT: 30 % of core",
            "KEPT: its cap: at most 30 ms in every 100 ms",
            "LOST: 30 ms of processor time in every 100 ms",
            "a cap, never a guarantee",
            "1 core more for edge-1",
        ):
            self.assertIn(words, text)

    def test_an_override_is_what_compose_reads(self):
        import yaml

        services = yaml.safe_load((self.out / "compose.giusto.yaml").read_text())["services"]
        self.assertEqual(
            services["search"],
            {
                "cpuset": str(CORE),
                "container_name": "giusto-search",
                "cpu_period": 100000,
                "cpu_quota": 30000,
                "cpu_shares": 3000 * 26,
            },
        )

    def test_containers_are_adopted_and_found_again(self):
        for name in NAMES:
            self.engine.run(name)
        for name in PROMISED:
            self.engine.real_time(name)
        environment = {**os.environ, "GIUSTO_STATE": str(self.folder / "state")}
        log = open(self.folder / "log", "w")
        self.addCleanup(log.close)
        run = subprocess.Popen(
            [GIUSTO, "run", self.site, "--host", "edge-1", "--out", self.folder / "run-out"],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
        )

        def end():
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
            run.wait(30)

        self.addCleanup(end)
        said = lambda: (self.folder / "log").read_text()[-2000:]

        def status():
            if run.poll() == 3:
                self.skipTest(f"giusto cannot enforce here: {said()}")
            self.assertIsNone(run.poll(), said())
            done = subprocess.run([GIUSTO, "status", "--json"], capture_output=True, text=True, env=environment)
            return json.loads(done.stdout) if done.returncode == 0 else None

        enforces = (
            lambda: status()
            and "enforcing" in subprocess.run([GIUSTO, "status"], capture_output=True, text=True, env=environment).stdout
        )
        until("it enforces", enforces)
        self.kept(self.shares("under giusto run"), whatever=True)
        first = self.engine.pid("search")
        self.engine("restart", "-t", "0", "giusto-search")
        self.engine.real_time("search")

        def has_its_share():
            pid = self.engine.pid("search")
            begin, before = time.monotonic_ns(), cpu_time(pid)
            time.sleep(1)
            return abs((cpu_time(pid) - before) / (time.monotonic_ns() - begin) - 0.3) < 0.05

        until("it is found after a restart", has_its_share)
        self.assertNotEqual(self.engine.pid("search"), first)
        self.engine.remove("search")
        gone = lambda: f"{NAME} start giusto-search" in json.dumps(status()) + said()
        until("its end is told", gone)
        self.engine.run("search")
        self.engine.real_time("search")
        until("a new one of its name is found", has_its_share)
        self.kept(self.shares("after a restart and a new container"), whatever=True)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(30), 0, said())
        self.shares("after the end")
        self.assertEqual({os.sched_getscheduler(self.engine.pid(name)) for name in NAMES}, {os.SCHED_OTHER})

    def test_one_that_is_not_there_is_refused_with_what_to_do(self):
        site = self.folder / "missing.yaml"
        site.write_text(SITE.replace("giusto-search", "giusto-nowhere"))
        done = subprocess.run(
            [GIUSTO, "run", site, "--host", "edge-1"],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "GIUSTO_STATE": str(self.folder / "state")},
        )
        if done.returncode == 3:
            self.skipTest(done.stderr)
        self.assertIn("it has no such container", done.stderr)
        self.assertIn(f"{NAME} start giusto-nowhere", done.stderr)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("containers: SKIPPED: run as root", file=sys.stderr)
        sys.exit(77)
    if NAME not in ENGINES:
        print(f"containers: GIUSTO_ENGINE is {NAME}; expected {' or '.join(ENGINES)}", file=sys.stderr)
        sys.exit(2)
    try:
        with tempfile.TemporaryDirectory() as folder:
            ENGINES[NAME](Path(folder)).close()
    except (CannotRun, AssertionError) as why:
        print(f"containers: SKIPPED: {why}", file=sys.stderr)
        sys.exit(77)
    main = unittest.main(exit=False, verbosity=2)
    sys.exit(1 if not main.result.wasSuccessful() else 77 if main.result.skipped else 0)
