"""A newcomer's first commands: doctor, demo and init, as root, as an unprivileged user, without capabilities, in a user
namespace and with one core.

The machine is left as it is: nothing here enforces anything. Only the standard library and the release build are used, or
the build that $GIUSTO names.
"""
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = Path(os.environ.get("GIUSTO", ROOT / "target/release/giusto"))
ROOT_USER = os.geteuid() == 0
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if ROOT_USER else []
NO_CAPABILITIES = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
NAMESPACE = ["unshare", "-Ur"]


def works(prefix):
    return subprocess.run([*prefix, "true"], capture_output=True).returncode == 0


def run(*args, prefix=(), cwd=ROOT, codes=(0,), program=GIUSTO, **environment):
    """Runs giusto; asserts the exit code; returns (stdout, stderr, exit code)."""
    done = subprocess.run([*prefix, str(program), *map(str, args)], cwd=cwd, env={**os.environ, **environment},
                          capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL)
    if done.returncode not in codes:
        raise AssertionError(f"{args}: exit {done.returncode}, expected {codes}\n{done.stdout}\n{done.stderr}")
    return done.stdout, done.stderr, done.returncode


def doctor(*prefix, codes=(0, 3)):
    """The document, after it was compared with the table."""
    out, err, code = run("doctor", "--json", prefix=prefix, codes=codes)
    found = json.loads(out)
    assert found["can_enforce"] == (code == 0), found
    assert found["can_enforce"] == all(check["state"] != "missing" for check in found["checks"]), found
    text, _, again = run("doctor", prefix=prefix, codes=codes)
    assert again == code and "what to do" in text.splitlines()[0], text
    assert all(check["check"] in text for check in found["checks"]), text
    assert all(len(line) <= 120 for line in text.splitlines()[:-1]), text
    return found


def states(found, name):
    return [check["state"] for check in found["checks"] if check["check"] == name]


class Doctor(unittest.TestCase):
    def test_here_it_says_what_works_and_its_exit_code_follows(self):
        found = doctor()
        for check in found["checks"]:
            self.assertEqual(check["remedy"] is None, check["state"] == "ok", check)
        for backend in ("manager", "deadline", "quota", "rt-group"):
            self.assertTrue(states(found, f"backend {backend}"), backend)

    def test_an_unprivileged_user_is_told_to_be_root(self):
        found = doctor(*USER, codes=(3,))
        self.assertEqual(states(found, "capabilities"), ["missing"])
        self.assertEqual(states(found, "SCHED_FIFO"), ["missing"])
        self.assertTrue(any("run as root" in (check["remedy"] or "") for check in found["checks"]))

    @unittest.skipUnless(ROOT_USER, "needs root to drop capabilities")
    def test_root_without_capabilities_as_in_a_container_is_refused(self):
        found = doctor(*NO_CAPABILITIES, codes=(3,))
        self.assertEqual(states(found, "root"), ["ok"])
        self.assertEqual(states(found, "capabilities"), ["missing"])
        self.assertEqual(found["backends"], [])

    @unittest.skipUnless(works(NAMESPACE), "user namespaces are not allowed here")
    def test_root_of_a_user_namespace_is_no_root_and_run_refuses_before_anything_is_started(self):
        found = doctor(*NAMESPACE, codes=(3,))
        self.assertEqual(states(found, "user namespace"), ["missing"])
        self.assertEqual(found["backends"], [])
        with tempfile.TemporaryDirectory() as folder:
            for more in (["--trial"], []):
                _, err, _ = run("run", "sites/walk.yaml", *more, "--out", folder, prefix=NAMESPACE, codes=(3,),
                                GIUSTO_STATE=f"{folder}/state")
                self.assertIn("user namespace", err)
                self.assertEqual(err.count("root on the host"), 1, err)
                self.assertFalse((Path(folder) / "logs").exists(), "a service was started")

    def test_one_core_is_told(self):
        found = doctor("taskset", "-c", "0")
        self.assertEqual(states(found, "cores"), ["note"])
        check = next(check for check in found["checks"] if check["check"] == "cores")
        self.assertIn("no trial is possible" if "bound" in check["found"] else "load generator", check["remedy"])

    @unittest.skipUnless(ROOT_USER and works(["unshare", "-m"]), "needs root and mount namespaces")
    def test_without_cgroups_and_without_proc_it_does_not_crash(self):
        for hide in ("umount -R /sys/fs/cgroup", "umount -l /sys", "mount -t tmpfs none /proc"):
            done = subprocess.run(["unshare", "-m", "sh", "-c", f"{hide} && exec {GIUSTO} doctor --json"],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, (hide, done.stderr))
            self.assertFalse(json.loads(done.stdout)["can_enforce"])

    def test_what_an_earlier_giusto_has_left_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "journal").write_text("0 torn\n1 torn\n2 torn\n")
            out, _, _ = run("doctor", "--json", codes=(3,), GIUSTO_STATE=folder)
            left = [check for check in json.loads(out)["checks"] if check["check"].startswith("left")][0]
            self.assertEqual(left["state"], "missing")
            self.assertIn("giusto restore", left["remedy"])


class Demo(unittest.TestCase):
    ROWS = ("a whole core", "shared, no plan", "shared, Giusto")

    def shown(self, out):
        for row in self.ROWS:
            self.assertRegex(out, rf"(?m)^{row} +\S+ [um]s +\S+ [um]s +\S+ [um]s ", out)
        self.assertIn("giusto doctor", out)

    def test_an_unprivileged_user_in_an_empty_folder_gets_the_table_and_a_page(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o777)
            program = shutil.copy(GIUSTO, folder)
            begin = time.monotonic()
            out, _, _ = run("demo", prefix=USER, cwd=folder, program=program)
            self.assertLess(time.monotonic() - begin, 5)
            self.shown(out)
            self.assertIn("the page: out/demo.html", out)
            page = (Path(folder) / "out/demo.html").read_text()
            self.assertIn("<svg", page)
            self.assertIn("nothing was started, enforced or measured", page)
            self.assertNotIn("http://", page.replace("http://www.w3.org/2000/svg", ""))
            again, _, _ = run("demo", prefix=USER, cwd=folder, program=program)
            self.assertEqual(out, again)

    @unittest.skipUnless(ROOT_USER, "needs root for a folder of another user")
    def test_where_the_folder_cannot_be_written_the_page_goes_to_the_temporary_one(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as temporary:
            os.chmod(folder, 0o755)
            os.chmod(temporary, 0o777)
            program = shutil.copy(GIUSTO, folder)
            out, _, _ = run("demo", prefix=USER, cwd=folder, program=program, TMPDIR=temporary)
            self.shown(out)
            page = Path(out.split("the page: ")[1].splitlines()[0])
            self.assertEqual(page.parent, Path(temporary))
            self.assertIn("<svg", page.read_text())

    def test_it_needs_no_capabilities_no_second_core_and_no_host(self):
        with tempfile.TemporaryDirectory() as folder:
            for prefix in (NO_CAPABILITIES if ROOT_USER else [], NAMESPACE if works(NAMESPACE) else [], ["taskset", "-c", "0"]):
                self.shown(run("demo", "--out", f"{folder}/page.html", prefix=prefix)[0])


if __name__ == "__main__":
    unittest.main()
