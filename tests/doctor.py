"""A newcomer's first commands: doctor, demo and init, as root, as an unprivileged user, without capabilities, in a user
namespace and bound to one core.

The machine is left as it is: nothing here enforces anything. Only the standard library and the release build are used,
or the build that $GIUSTO names.
"""
import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from patient import Patient, of_today

ROOT = Path(__file__).resolve().parent.parent
GIUSTO = Path(os.environ.get("GIUSTO", ROOT / "target/release/giusto"))
ROOT_USER = os.geteuid() == 0
USER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if ROOT_USER else []
NO_CAPABILITIES = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
NAMESPACE = ["unshare", "-Ur"]
SOAK = "GIUSTO_SOAK" in os.environ


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


class Doctor(Patient):
    def test_here_it_says_what_works_and_its_exit_code_follows(self):
        found = doctor()
        for check in found["checks"]:
            self.assertEqual(check["remedy"] is None, check["state"] == "ok", check)
        for backend in ("manager", "deadline", "quota", "rt-group", "kernel"):
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


class Demo(Patient):
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
            poor = [NO_CAPABILITIES if ROOT_USER else [], NAMESPACE if works(NAMESPACE) else []]
            for prefix in (*poor, ["taskset", "-c", "0"]):
                self.shown(run("demo", "--out", f"{folder}/page.html", prefix=prefix)[0])


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def listens(port):
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on {port}")


class Loaded:
    """A service with requests: one after each gap that `gap` draws."""

    def __init__(self, command, port, request, gap):
        self.service = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.port, self.request, self.gap = port, request, gap
        self.stop = threading.Event()
        self.sender = threading.Thread(target=self.send)

    def __enter__(self):
        listens(self.port)
        self.sender.start()
        return self.service.pid

    def __exit__(self, *_):
        self.stop.set()
        self.sender.join()
        self.service.terminate()
        self.service.wait()

    def send(self):
        draw = random.Random(1)
        due = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while not self.stop.is_set():
                due = max(due + self.gap(draw), time.monotonic() - 0.1)
                time.sleep(max(0, due - time.monotonic()))
                client.sendall(self.request)
                client.recv(65536)


def hset():
    words = ["HSET", "key", *(word for field in range(70) for word in (f"f{field}", "v" * 8))]
    return (f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)).encode()


def redis(gap):
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    return Loaded(command, port, hset(), gap)


def together(*works):
    """At the same time, as each of them waits for seconds."""
    with ThreadPoolExecutor() as pool:
        for one in [pool.submit(work) for work in works]:
            one.result()


def every(seconds):
    return lambda _: seconds


def at_random(rate):
    return lambda draw: draw.expovariate(rate)


class Init(Patient):
    def adopted(self, service, *more, prefix=(), length="4s"):
        """The site's text and the summary of a service that is loaded meanwhile; the site is checked and planned."""
        with tempfile.TemporaryDirectory() as folder, service as pid:
            os.chmod(folder, 0o777)
            site = Path(folder) / "site.yaml"
            flags = ["--for", length, "--out", site, "--json"]
            out, err, _ = run("init", "--adopt", *(more or (pid,)), *flags, prefix=prefix)
            self.assertIn("watching", err)
            found = json.loads(out)
            self.assertEqual(found["site"], str(site))
            run("check", site)
            run("plan", site)
            run("init", "--adopt", pid, "--out", site, codes=(2,))
            return site.read_text(), found["observed"], pid

    @unittest.skipUnless(shutil.which("redis-server"), "needs redis-server")
    def test_a_redis_with_requests_at_random_gets_arrivals_and_a_load(self):
        text, observed, pid = self.adopted(redis(at_random(200)))
        self.assertIn(f"adopt: {{pid: {pid}}}", text)
        self.assertRegex(text, r"(?m)^    arrivals: \{poisson: ")
        self.assertRegex(text, r"(?m)^    load: \{redis: 127.0.0.1:\d+, fields: ")
        self.assertIn(observed["shape"], ("poisson", "bursty", "even"))  # a machine that stalls makes bursts
        self.assertLess(abs(observed["rate_per_s"] - 210), 60)

    @unittest.skipUnless(shutil.which("redis-server"), "needs redis-server")
    def test_a_periodic_one_gets_a_task_of_its_period(self):
        text, observed, _ = self.adopted(redis(every(0.01)), length="6s")
        if observed["shape"] == "periodic":  # not where this machine stalls its client
            period = r"(10ms|9\d+us|10\d00us)"
            self.assertRegex(text, rf"(?m)^    tasks: \[\{{name: observed, wcet: \d+us, period: {period}\}}\]")
            self.assertRegex(text, r"(?m)^    promise: as-if-alone")
        self.assertLess(abs(observed["rate_per_s"] - 110), 30)

    @unittest.skipUnless(shutil.which("memcached"), "needs memcached")
    def test_of_memcached_only_the_thread_that_serves_counts(self):
        port = free_port()
        command = ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(port)]
        service = Loaded(command, port, b"set key 0 0 100\r\n" + b"x" * 100 + b"\r\n", at_random(300))
        text, observed, _ = self.adopted(service)
        self.assertIn(f"load: {{memcached: 127.0.0.1:{port}, value: 100}}", text)
        self.assertLess(abs(observed["rate_per_s"] - 300), 100)

    def test_python_s_web_server_is_told_to_keep_its_connections(self):
        def told(more, line):
            port = free_port()
            with tempfile.TemporaryDirectory() as folder:
                command = ["/usr/bin/python3", "-m", "http.server", str(port), "--bind", "127.0.0.1",
                           "--directory", folder, *more]
                request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
                service = Loaded(command, port, request, every(0.02))
                service.send = lambda of=service: self.connections(of)
                service.sender = threading.Thread(target=service.send)
                text, _, _ = self.adopted(service)
                self.assertIn(line.format(port=port), text.replace("\n    # ", " "))
        kept = (["--protocol", "HTTP/1.1"], "load: {{http: 127.0.0.1:{port}")
        together(lambda: told([], "it is Python's http.server"), lambda: told(*kept))

    @staticmethod
    def connections(service):
        while not service.stop.is_set():
            with socket.create_connection(("127.0.0.1", service.port)) as client:
                client.sendall(service.request)
                client.recv(65536)
            time.sleep(0.02)

    @unittest.skipUnless(shutil.which("redis-server"), "needs redis-server")
    def test_without_privilege_a_service_of_another_user_is_watched_all_the_same(self):
        text, _, _ = self.adopted(redis(at_random(200)), prefix=USER)
        if ROOT_USER:
            self.assertIn("run as root or as the user of the service", text.replace("\n    # ", " "))

    @unittest.skipUnless(ROOT_USER and shutil.which("redis-server"), "needs root and redis-server")
    def test_a_unit_and_a_container_are_found_by_their_cgroups(self):
        v1 = Path("/sys/fs/cgroup/systemd")
        root = v1 if v1.exists() else Path("/sys/fs/cgroup")
        identity = "5e1f" * 16
        def found(name, text, key):
            group = root / name
            service = redis(at_random(100))
            try:
                group.mkdir()
                (group / "cgroup.procs").write_text(str(service.service.pid))
                site, observed, pid = self.adopted(service, text)
                self.assertIn(f"adopt: {{{key}}}", site)
                self.assertEqual(observed["processes"], [pid])
            finally:
                for _ in range(100):
                    try:
                        group.rmdir()
                        break
                    except OSError:
                        time.sleep(0.05)
        together(lambda: found("giusto-test.service", "giusto-test.service", "systemd: 'giusto-test.service'"),
                 lambda: found(f"docker-{identity}.scope", identity[:12], f"cgroup: 'docker-{identity}.scope'"))

    @unittest.skipUnless(ROOT_USER and shutil.which("redis-server"), "needs root and redis-server")
    def test_pods_get_promises(self):
        """A container's cgroup as containerd makes it, and pods as kubectl prints them; tests/kubernetes.py has real ones."""
        v1 = Path("/sys/fs/cgroup/systemd")
        identity = "5e2f" * 16
        group = (v1 if v1.exists() else Path("/sys/fs/cgroup")) / f"cri-containerd-{identity}.scope"

        def pod(name, labels, *containers, of=identity):
            return {"metadata": {"name": name, "namespace": "shop", "labels": labels},
                    "spec": {"containers": [{"name": container} for container in containers]},
                    "status": {"containerStatuses": [{"name": container, "containerID": f"containerd://{of}"}
                                                     for container in containers]}}

        with tempfile.TemporaryDirectory() as folder, redis(at_random(200)) as pid:
            try:
                group.mkdir()
                (group / "cgroup.procs").write_text(str(pid))
                pods, out = Path(folder) / "pods.json", Path(folder) / "promises.yaml"
                own = {"app": "cache", "pod-template-hash": "1234"}
                pods.write_text(json.dumps({"kind": "List", "items": [
                    pod("elsewhere-0", {"app": "elsewhere"}, "main", of="0" * 64),
                    pod("bare", {"pod-template-hash": "1"}, "main"),
                    pod("cache-0", own, "log", "redis"), pod("cache-1", {**own, "pod-template-hash": "5678"}, "log", "redis")]}))
                _, err, _ = run("init", "--kubernetes", pods, "--for", "1s", codes=(6,))
                for words in ("shop/elsewhere-0: it does not run on this machine", "shop/bare: it has no label",
                              "shop/cache-0: it has containers log, redis", "no promise can be written for any of the 4 pods"):
                    self.assertIn(words, err)
                _, err, _ = run("init", "--kubernetes", pods, "--container", "redis", "--for", "4s", "--out", out)
                self.assertIn("shop/cache-1 has the labels of cache-0, whose promise is for both", err)
                text = out.read_text()
                self.assertEqual(text.count("kind: Promise\n"), 1)
                for line in ('  namespace: "shop"', '      "app": "cache"', '  container: "redis"'):
                    self.assertIn(f"\n{line}\n", text)
                self.assertNotIn("1234", text)
                self.assertRegex(text, r'\n    arrivals:\n      poisson: "\d')
                run("init", "--kubernetes", pods, "--out", out, codes=(2,))
            finally:
                (group.parent / "cgroup.procs").write_text(str(pid))
                group.rmdir()
            pods.write_text("{}")
            _, err, _ = run("init", "--kubernetes", pods, codes=(2,))
            self.assertIn("expected pods as 'kubectl get pods -o json' prints them", err)

    def test_what_is_not_there_or_does_nothing_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder) / "site.yaml"
            for name in ("4194303", "no-such.service", "no-such-container", "1"):
                _, err, _ = run("init", "--adopt", name, "--out", site, codes=(2,))
                self.assertIn("expected", err)
            idle = subprocess.Popen(["sleep", "60"])
            try:
                _, err, _ = run("init", "--adopt", idle.pid, "--for", "1s", "--out", site, codes=(6,))
                self.assertIn("watch it while it is used", err)
            finally:
                idle.kill()
                idle.wait()
            self.assertFalse(site.exists())


@unittest.skipUnless(ROOT_USER and shutil.which("redis-server") and shutil.which("memcached"), "needs root, redis-server and memcached")
@unittest.skipUnless("doctor.py" in of_today(["deaths.py", "doctor.py"]), "the other one has a trial today")
class Kept(Patient):
    """A site that init wrote is enforced and its promise is kept by the service that was watched."""

    def kept(self, service, name):
        with tempfile.TemporaryDirectory() as folder, service as pid:
            site = Path(folder) / "site.yaml"
            run("init", "--adopt", pid, "--for", "8s" if SOAK else "5s", "--out", site)
            service.stop.set()  # the trial sends its own requests
            service.sender.join()
            # A machine that is disturbed cannot tell, now and then; in the long campaign twice would be odd.
            for _ in range(2 if SOAK else 1):
                length = "40s" if SOAK else "15s"
                out, err, code = run("run", site, "--trial", "--at-most", length, "--out", folder, codes=(0, 6))
                if code == 0:
                    break
            print(f"{name}: {'kept' if code == 0 else 'cannot tell'}: {site.read_text().split('promise: ')[1].splitlines()[0]}")
            self.assertIn("promise kept" if code == 0 else "cannot tell", out)
            return code

    def test_of_a_web_server_with_a_thread_for_each_connection(self):
        port = free_port()
        command = ["/usr/bin/python3", "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory",
                   str(ROOT / "formats"), "--protocol", "HTTP/1.1"]
        self.kept(Loaded(command, port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", every(0.005)), "http.server")

    @unittest.skipUnless(SOAK, "the long campaign")
    def test_of_redis_and_memcached(self):
        port = free_port()
        memcached = ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(port)]
        store = b"set key 0 0 100\r\n" + b"x" * 100 + b"\r\n"
        self.assertEqual(self.kept(redis(at_random(200)), "redis"), 0)
        self.assertEqual(self.kept(Loaded(memcached, port, store, at_random(300)), "memcached"), 0)


if __name__ == "__main__":
    unittest.main()
