"""`giusto export libvirt`, applied to a real libvirtd with a guest in software emulation: its <cputune> checked against libvirt's
schema, shares and schedulers of the vCPUs' threads measured without it, set while the domain runs, at its start, with a core to
itself, and under a giusto that the hook has started; two of the four each day, all with GIUSTO_SOAK=1. In mounts of its own:
the host's libvirt, if there is one, is not touched. Needs root; exit code 77 where libvirt, QEMU or a kernel cannot be had.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from xml.sax.saxutils import escape

sys.path.insert(0, str(Path(__file__).resolve().parent / "vm"))
import guest
import taken
from guest import ROOT, cpu_time
from patient import Patient, of_today

GIUSTO = ROOT / "target" / "release" / "giusto"
CORE = max(os.sched_getaffinity(0))
DOMAIN = "flight one's & <two>"
OTHER = "other"
OWN = (
    "/etc/libvirt",
    "/run/libvirt",
    "/var/lib/libvirt",
    "/var/log/libvirt",
    "/var/cache/libvirt",
    "/etc/giusto",
    "/run/giusto",
    "/var/lib/giusto",
)


def until(what, holds, patience=60):
    end = time.monotonic() + patience
    while not (found := holds()):
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(0.1)
    return found


def install():
    """Whether libvirt is there, with its schema."""
    if all(map(shutil.which, ("libvirtd", "virsh"))):
        return True
    subprocess.run(["apt-get", "update", "-qq"], stdout=subprocess.DEVNULL)
    packages = ["libvirt-daemon", "libvirt-daemon-driver-qemu", "libvirt-clients"]
    return (
        subprocess.run(
            ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages],
            stdout=subprocess.DEVNULL,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        ).returncode
        == 0
    )


def virsh(*words, check=True):
    done = subprocess.run(["virsh", "-c", "qemu:///system", "--quiet", *words], capture_output=True, text=True, timeout=60)
    if check and done.returncode:
        raise AssertionError(f"virsh {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout.strip()


class Exports(Patient):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="giusto-libvirt-"))
        cls.folder.chmod(0o755)
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.kernel, cls.initramfs = guest.fetch()
        cls.daemon = None
        cls.addClassCleanup(cls.end)

    @classmethod
    def end(cls):
        if cls.daemon:
            for domain in (DOMAIN, OTHER):
                virsh("destroy", domain, check=False)
            cls.daemon.terminate()
            cls.daemon.wait()
            cls.daemon = None

    def libvirtd(self, controllers):
        """Starts it: with these controllers of cgroups."""
        self.end()
        Path("/etc/libvirt/qemu.conf").write_text(
            'user = "root"\ngroup = "root"\nsecurity_driver = "none"\nnamespaces = []\nremember_owner = 0\n'
            f'stdio_handler = "file"\n'
            f'cgroup_controllers = [{", ".join(f"{one!r}" for one in controllers)}]\n'.replace("'", '"')
        )
        log = self.folder / "libvirtd.log"
        Path("/etc/libvirt/libvirtd.conf").write_text(f'auth_unix_rw = "none"\nlog_outputs = "2:file:{log}"\n')
        type(self).daemon = subprocess.Popen(
            ["libvirtd"],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": f"{GIUSTO.parent}:{os.environ['PATH']}"},
        )
        until(
            "libvirtd answers",
            lambda: subprocess.run(["virsh", "-c", "qemu:///system", "list"], capture_output=True).returncode == 0,
        )

    def export(self, promise, cores=CORE, more=""):
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        site = self.folder / "site.yaml"
        site.write_text(
            f"giusto: 1\nhosts: {{edge-1: {{cores: {cores}}}}}\nservices:\n  flight:\n"
            f'    adopt: {{libvirt: "{DOMAIN}"}}\n    promise: {{supply: {promise}}}\n{more}'
        )
        subprocess.run([GIUSTO, "export", "libvirt", site, "--out", out], check=True, stdout=subprocess.DEVNULL)
        return out / "edge-1"

    def start(self, vcpus, tune="", domain=DOMAIN):
        """A domain that works on all its vCPUs; returns their threads."""
        virsh("destroy", domain, check=False)
        files = [self.folder / f"{name}{'' if domain == DOMAIN else domain}" for name in ("console", "work")]
        for file in files:
            file.unlink(missing_ok=True)
        xml = self.folder / "domain.xml"
        serial = "".join(f"<serial type='file'><source path='{file}'/></serial>" for file in files)
        xml.write_text(
            f"<domain type='qemu'><name>{escape(domain)}</name><memory unit='MiB'>256</memory><vcpu>{vcpus}</vcpu>"
            f"<iothreads>1</iothreads>{tune}"
            f"<os><type arch='x86_64' machine='q35'>hvm</type><kernel>{self.kernel}</kernel><initrd>{self.initramfs}</initrd>"
            f"<cmdline>{guest.BOOT}</cmdline></os><features><acpi/></features><cpu mode='maximum'/><devices>"
            f"<emulator>/usr/bin/qemu-system-x86_64</emulator>{serial}<controller type='usb' model='none'/>"
            "<memballoon model='none'/></devices></domain>"
        )
        virsh("undefine", domain, check=False)
        virsh("define", "--validate", str(xml))
        virsh("start", domain)
        return self.threads(vcpus, domain)

    def threads(self, vcpus, domain=DOMAIN):
        status = Path(f"/run/libvirt/qemu/{domain}.xml")

        def found():
            ids = re.findall(r"<vcpu id='(\d+)' pid='(\d+)'/>", status.read_text()) if status.exists() else []
            return len(ids) == vcpus and [int(tid) for _, tid in sorted(ids)]

        return until("libvirt tells the vCPUs", found)

    def works(self, file="work"):
        return len((self.folder / file).read_text().splitlines()) > 2 if (self.folder / file).exists() else False

    def shares(self, what, threads, seconds=3):
        """Of a core, and what others took of the core meanwhile."""
        begin, before, busy = time.monotonic_ns(), [cpu_time(tid) for tid in threads], taken.busy(CORE)
        time.sleep(seconds)
        after, elapsed = [cpu_time(tid) for tid in threads], time.monotonic_ns() - begin
        shares = [(a - b) / elapsed for a, b in zip(after, before)]
        others = (taken.busy(CORE) - busy) / elapsed - sum(shares)
        print(
            f"{what}: vCPUs {', '.join(f'{share:.3f}' for share in shares)} of a core; others took {max(others, 0):.3f} of "
            f"core {CORE}",
            flush=True,
        )
        return shares, others

    def kept(self, measured, promised):
        """No more than that, and no less where others keep off the core, as <cputune> says."""
        shares, others = measured
        for share in shares:
            self.assertLess(share, 1.15 * promised)
            if others < 0.05:
                self.assertGreater(share, 0.85 * promised)

    def settings(self):
        """As libvirt has them of the domain while it runs."""
        lines = virsh("schedinfo", "--domain", DOMAIN).replace(" ", "").splitlines()
        return dict(line.split(":") for line in lines if ":" in line)

    def as_it_was(self):
        return self.settings(), virsh("dumpxml", "--domain", DOMAIN, "--inactive"), virsh("vcpupin", "--domain", DOMAIN, "--live")

    def quota(self):
        """Of each virtual CPU, as libvirt has set it."""
        told = self.settings()
        return int(told["vcpu_quota"]) / int(told["vcpu_period"])

    def pinned(self, threads):
        for tid in threads:
            self.assertEqual(os.sched_getaffinity(tid), {CORE})

    def test_shares_set_while_it_runs_and_at_its_start(self):
        self.libvirtd(("cpu", "cpuset", "cpuacct"))
        out = self.export("[40ms/100ms, 40ms/100ms]")  # a guest that boots with less takes long
        threads = self.start(2)
        until("the guest works", self.works)
        self.shares("without <cputune>", threads)
        self.assertFalse(0 < self.quota() < 1, "nothing limits it without <cputune>")
        before = self.as_it_was()
        subprocess.run([out / "apply.sh"], check=True, stdout=subprocess.DEVNULL)
        self.pinned(threads)
        if CORE:
            told = virsh("iothreadinfo", "--domain", DOMAIN, "--live").split()[-1]
            self.assertEqual(told, virsh("emulatorpin", "--domain", DOMAIN, "--live").split()[-1], "an I/O thread keeps off")
            self.assertNotIn(str(CORE), told.split(","))
        self.assertEqual(self.quota(), 0.4)
        self.kept(self.shares("set while it runs", threads), 0.4)
        again = subprocess.run([out / "apply.sh"], capture_output=True, text=True)
        self.assertIn("it is applied", again.stderr)
        subprocess.run([out / "undo.sh"], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(self.as_it_was(), before)
        self.assertGreater(len(os.sched_getaffinity(threads[0])), 1 if CORE else 0)
        self.assertFalse((out / "found").exists())
        threads = self.start(2, (out / "flight.cputune.xml").read_text())
        self.pinned(threads)
        until("the guest works", self.works)
        self.kept(self.shares("with <cputune> from its start", threads), 0.4)
        text = " ".join((out / "flight.cputune.xml").read_text().split())
        self.assertIn("KEPT: its cap: at most 40 ms in every 100 ms", text)
        self.assertIn("LOST: 40 ms of processor time in every 100 ms", text)
        self.assertIn("1 core more for edge-1", text)

    def test_weights_divide_a_core_and_all_or_nothing_is_set(self):
        self.libvirtd(("cpu", "cpuset", "cpuacct"))
        more = f"    cap: soft\n  other:\n    adopt: {{libvirt: {OTHER}}}\n    promise: {{supply: [20ms/100ms]}}\n    cap: soft\n"
        out = self.export("[40ms/100ms]", more=more)
        threads = self.start(1)
        before = self.as_it_was()
        done = subprocess.run([out / "apply.sh"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"domain {OTHER} does not run", done.stderr)
        self.assertEqual(self.as_it_was(), before, "nothing was set")
        threads += self.start(1, domain=OTHER)
        text = (out / "apply.sh").read_text()
        (out / "apply.sh").write_text(text.replace("each note", "false"))
        done = subprocess.run([out / "apply.sh"], capture_output=True, text=True)
        self.assertIn("all goes back", done.stderr)
        self.assertEqual(self.as_it_was(), before, "what failed halfway was taken back")
        (out / "apply.sh").write_text(text)
        for file in ("work", f"work{OTHER}"):
            until("the guests work", lambda: self.works(file))
        subprocess.run([out / "apply.sh"], check=True, stdout=subprocess.DEVNULL)
        self.pinned(threads)
        (one, two), _ = self.shares("by weights alone", threads, 5)
        # 40 to 20, and not alike.
        self.assertAlmostEqual(one / (one + two), 2 / 3, delta=0.06)
        virsh("desc", "--domain", OTHER, "--config", "changed")
        done = subprocess.run([out / "undo.sh"], capture_output=True, text=True)
        self.assertIn(f"the configuration of {OTHER} was changed since", done.stderr)
        self.assertEqual(self.as_it_was(), before)
        virsh("destroy", OTHER)

    def test_a_core_to_itself_is_had_before_all_others(self):
        # Where a kernel has real-time groups, a thread in one without runtime cannot be a real-time thread.
        self.libvirtd(("cpuset",))
        out = self.export("[25ms/100ms]")
        hog = subprocess.Popen(["taskset", "-c", str(CORE), "sh", "-c", "while :; do :; done"])
        self.addCleanup(hog.wait)
        self.addCleanup(hog.kill)
        threads = self.start(1)
        until("the guest works", self.works)
        os.sched_setaffinity(threads[0], {CORE})
        self.assertLess(self.shares("beside a hog, without <cputune>", threads)[0][0], 0.7)
        threads = self.start(1, (out / "flight.cputune.xml").read_text())
        self.pinned(threads)
        self.assertEqual(os.sched_getscheduler(threads[0]), os.SCHED_FIFO)
        until("the guest works", self.works)
        self.assertGreater(self.shares("beside a hog, with it", threads)[0][0], 0.8)

    def test_the_hook_has_giusto_adopt_it(self):
        self.libvirtd(("cpuset",))
        # It boots with no more than these, too.
        out = self.export("[60ms/100ms, 20ms/100ms]", more="  ground: {start: [sleep, infinity], promise: leftovers}\n")
        # What the site starts is none of libvirt's: Giusto starts it, and there is no unit that it could adopt.
        text = (out / "giusto/edge-1.yaml").read_text()
        self.assertTrue("start:" in text and "systemd" not in text, text)
        self.assertFalse((out / "giusto/giusto@edge-1.service.d").exists())
        hooks = Path("/etc/libvirt/hooks")
        hooks.mkdir(exist_ok=True)
        shutil.copy(out / "hooks/qemu", hooks / "qemu")
        shutil.copy(out / "giusto/edge-1.yaml", "/etc/giusto/edge-1.yaml")
        self.addCleanup((hooks / "qemu").unlink)
        self.libvirtd(("cpuset",))  # it looks for hooks at its start
        asked = lambda: subprocess.run([GIUSTO, "status"], capture_output=True, text=True)
        self.assertNotEqual(asked().returncode, 0)
        for turn in ("started by the hook", "found again after a new start"):
            threads = self.start(2)
            until("giusto enforces", lambda: asked().returncode == 0)
            until("the guest works", self.works)

            def has_them():
                shares, _ = self.shares(turn, self.threads(2), 2)
                return abs(shares[0] - 0.6) < 0.04 and abs(shares[1] - 0.2) < 0.03

            until("each vCPU has its share", has_them)
            running = subprocess.run(["pgrep", "-x", "giusto"], capture_output=True, text=True).stdout.split()
            ours = [int(pid) for pid in running if b"/etc/giusto/edge-1.yaml" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            self.assertEqual(len(ours), 1, "one giusto")
        os.kill(ours[0], signal.SIGINT)
        until("it has ended", lambda: asked().returncode != 0)


def load_tests(_, tests, __):
    found = [test for suite in tests for test in suite]
    return unittest.TestSuite(of_today(found) if len(found) == 4 else found)  # all, or those that were named


if __name__ == "__main__":
    if os.geteuid() != 0 or not install():
        print("libvirt: SKIPPED: not root, or libvirt cannot be installed from this machine's package mirror", file=sys.stderr)
        sys.exit(guest.SKIPPED)
    if "GIUSTO_OWN_MOUNTS" not in os.environ:
        made = [folder for folder in OWN if not Path(folder).exists()]
        for folder in made:
            os.makedirs(folder)
        code = subprocess.run(
            ["unshare", "-m", "--propagation", "private", sys.executable, __file__, *sys.argv[1:]],
            env={**os.environ, "GIUSTO_OWN_MOUNTS": "yes"},
        ).returncode
        for folder in made:
            os.rmdir(folder)
        for group in Path("/sys/fs/cgroup").glob("*/machine"):
            for below in sorted(group.glob("**/"), reverse=True):
                with contextlib.suppress(OSError):  # another libvirt's, or another program's
                    below.rmdir()
        sys.exit(code)
    for folder in OWN:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder], check=True)
    # Beside hierarchies of v1 it has no controller, and libvirt asks it for some.
    if Path("/sys/fs/cgroup/unified").is_mount() and Path("/sys/fs/cgroup/cpu").is_dir():
        subprocess.run(["umount", "/sys/fs/cgroup/unified"], check=True)
    # A user that another package of libvirt makes, without which its driver does not begin.
    for file, line in (
        ("passwd", "libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin"),
        ("group", "libvirt-qemu:x:64055:"),
        ("group", "kvm:x:64056:"),
    ):
        text, name = Path("/etc", file).read_text(), line.split(":")[0]
        if not re.search(rf"^{name}:", text, re.MULTILINE):
            own = Path("/var/lib/libvirt", file)
            own.write_text(f"{text}{line}\n")
            subprocess.run(["mount", "--bind", own, f"/etc/{file}"], check=True)
    try:
        guest.fetch()
    except guest.CannotRun as why:
        print(f"libvirt: SKIPPED: {why}", file=sys.stderr)
        sys.exit(guest.SKIPPED)
    main = unittest.main(exit=False, verbosity=2)
    sys.exit(1 if not main.result.wasSuccessful() else guest.SKIPPED if main.result.skipped else 0)
