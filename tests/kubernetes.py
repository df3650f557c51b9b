"""Promises for pods, end to end: a real Kubernetes of one node on this machine, with Giusto's extender and agent in it as pods.

All the time a thread (`Law`) checks that no core has more reserved than the planner admits, and that what the API says of a pod
is so on the node within five seconds.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "kubernetes/cluster"))
from cluster import NODE, RECORD, TARGET, Cluster, wait  # noqa: E402
from guard import LEFT, SETTINGS, Guard, mounts  # noqa: E402
from objects import promise, workload  # noqa: E402

CONTROL = Path("/run/giusto-kubernetes/state/control")
HOST = Path("/run/giusto/control")  # of giusto.service
TRUE_WITHIN = 5.0
# Of a core, beyond what is kept free and what the manager takes (docs/decisions/0005).
MOST = 0.93
OWN = "giusto-system"


def giusto_status(control: Path = CONTROL) -> dict[str, Any] | None:
    """What the node's giusto run says; `None`: none runs."""
    try:
        with socket.socket(socket.AF_UNIX) as to:
            to.settimeout(5)
            to.connect(str(control))
            to.sendall(b'{"do":"status"}\n')
            with to.makefile() as answer:
                told: dict[str, Any] = json.loads(answer.readline())
                return told.get("status")
    except (OSError, ValueError):
        return None


def requests(to: socket.socket, count: int) -> list[float]:
    """How long requests take that are sent 2 ms apart, from when each was due: who is late does not hide what waits."""
    took, begin = [], time.monotonic()
    for turn in range(count):
        due = begin + turn * 0.002
        time.sleep(max(0.0, due - time.monotonic()))
        to.sendall(b"PING\r\n")
        if not to.recv(64).endswith(b"\r\n"):
            raise AssertionError("expected the whole answer of a PING")
        took.append(time.monotonic() - due)
    return took


SPIN = ["/bin/sh", "-c", "while :; do :; done"]


class Law(threading.Thread):
    """Looks twice a second, from the outside, and keeps what was broken."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.broken: list[str] = []
        self.looks = 0
        self.since: dict[str, float] = {}
        self.longest = 0.0
        self.ended = threading.Event()
        self.died: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ended.wait(0.5):
                self.look()
        except BaseException as error:  # what ends a thread fails no test by itself
            self.died = error

    def require_alive(self) -> None:
        """Fails where it looks no more: what is broken since then would pass for kept."""
        if self.died is not None:
            raise self.died
        if not self.is_alive() and not self.ended.is_set():
            raise AssertionError("the thread that looks has ended, and was not told to")

    def end(self) -> None:
        """Ends it; fails where it had died, or has never looked."""
        try:
            self.require_alive()
        finally:
            self.ended.set()
            self.join()
        self.require_alive()  # its last look may have failed
        if self.looks == 0:
            raise AssertionError("the thread that looks has never found its GiustoNode: nothing was checked")

    def look(self) -> None:
        told = self.cluster.get("giustonode", NODE)
        real = giusto_status()
        if told is None:
            return
        self.looks += 1
        reserved: dict[int, float] = {}
        services = {}
        for one in (real or {}).get("services", []):
            services[one["name"]] = one
            if one["budget_ns"]:
                reserved[one["core"]] = reserved.get(one["core"], 0.0) + one["budget_ns"] / one["period_ns"]
        for core, share in reserved.items():
            if share > MOST + 1e-9:
                self.broken.append(f"{share:.3f} of core {core} is reserved")
        now = time.monotonic()
        false = set()
        for pod in told.get("status", {}).get("pods", []):
            own = services.get(pod.get("service"))
            there = bool(own) and own["threads"] > 0 and own["state"] not in ("awaited", "ended")
            there = there and not any(own["name"] in warning for warning in (real or {})["warnings"])
            if pod["enforced"] and not there:
                false.add(pod["uid"])
        for uid in list(self.since):
            if uid not in false:
                del self.since[uid]
        for uid in false:
            for_so_long = now - self.since.setdefault(uid, now)
            self.longest = max(self.longest, for_so_long)
            if for_so_long > TRUE_WITHIN:
                self.broken.append(f"pod {uid} is said to have its share for {for_so_long:.1f} s, and has none")


class Kubernetes(unittest.TestCase):
    """One cluster for all, in the order of their names; each takes away what it made."""

    cluster: Cluster
    law: Law

    @classmethod
    def setUpClass(cls) -> None:
        Guard.recover(RECORD)
        if giusto_status() is not None or giusto_status(HOST) is not None:
            raise unittest.SkipTest("another giusto runs here")
        cls.before = cls.host()
        cls.outside_before = cls.outside()
        folder = Path(tempfile.mkdtemp(prefix="giusto-kubernetes-", dir="/var/tmp"))
        cls.cluster = Cluster(folder)
        cls.addClassCleanup(cls.end)
        begin = time.monotonic()
        cls.cluster.start()
        print(f"KUBERNETES: a node is ready after {time.monotonic() - begin:.1f} s")
        cls.install()
        cls.law = Law(cls.cluster)
        cls.law.start()
        cls.addClassCleanup(cls.law.end)  # cleanups run last first: the cluster ends after it, whatever it raises

    @classmethod
    def install(cls) -> None:
        """As a user does: kubectl apply -k, with an overlay that names the images of this test."""
        overlay = cls.cluster.folder / "overlay"
        shutil.copytree(ROOT / "kubernetes/deploy/base", overlay / "base")
        here = [{"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"}, {"name": "KUBERNETES_SERVICE_PORT", "value": "16443"}]
        patch = [{"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": one} for one in here]
        patch.append({"op": "add", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Never"})
        beside = [
            {"op": "add", "path": "/spec/template/spec/hostNetwork", "value": True},
            {"op": "add", "path": "/spec/template/spec/containers/0/env", "value": here},
            {"op": "add", "path": "/spec/template/spec/containers/1/env", "value": here},
            {"op": "add", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Never"},
            {"op": "add", "path": "/spec/template/spec/containers/1/imagePullPolicy", "value": "Never"},
        ]
        (overlay / "kustomization.yaml").write_text(json.dumps({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["base"],
            "images": [{"name": "giusto-kubernetes", "newName": "giusto.test/giusto-kubernetes", "newTag": "1"},
                       {"name": "kube-scheduler", "newName": "giusto.test/kube-scheduler", "newTag": "1"}],
            "patches": [{"target": {"kind": "DaemonSet", "name": "agent"}, "patch": json.dumps(patch)},
                        {"target": {"kind": "Deployment", "name": "scheduler"}, "patch": json.dumps(beside)}],
        }))
        cls.cluster.kubectl("apply", "-k", overlay)
        wait("the agent tells of its node", lambda: cls.ready("giustonode", NODE, "Ready"))
        wait("giusto.io/cpu is published", lambda: "giusto.io/cpu" in cls.cluster.get("node", NODE)["status"]["allocatable"])
        wait("the scheduler runs", lambda: (cls.cluster.get("-n", OWN, "deployment", "scheduler") or {}).get("status", {})
             .get("readyReplicas"))

    @classmethod
    def end(cls) -> None:
        cls.cluster.stop()
        status = giusto_status()
        if status is not None:
            os.kill(status["pid"], signal.SIGTERM)
            wait("giusto run ends", lambda: giusto_status() is None)
        shutil.rmtree("/run/giusto-kubernetes", ignore_errors=True)
        if (after := cls.outside()) != cls.outside_before:
            raise AssertionError(f"the cluster has left something: {cls.outside_before} before, {after} now")

    @staticmethod
    def outside() -> dict[str, Any]:
        """What kubelet, containerd and the network change of a machine."""
        rules = []
        if shutil.which("iptables-save"):
            saved = subprocess.run(["iptables-save"], capture_output=True, text=True).stdout
            rules = [line for line in saved.splitlines() if "KUBE" in line]
        return {
            "settings": [(Path("/proc/sys") / name).read_text() for name in SETTINGS], "rules": rules,
            "folders": [sorted(os.listdir(name)) if os.path.isdir(name) else None for name in LEFT],
            "interfaces": sorted(os.listdir("/sys/class/net")), "mounts": sorted(mounts()),
            "cgroups": sorted(str(one) for one in Path("/sys/fs/cgroup").glob("*/kubepods")),
        }

    @staticmethod
    def host() -> dict[str, Any]:
        """What the test has to leave as it was."""
        cpusets = Path("/sys/fs/cgroup/cpuset")
        return {
            "giusto's cpusets": sorted(str(one) for one in cpusets.glob("giusto*")) if cpusets.is_dir() else [],
            "balanced": (cpusets / "cpuset.sched_load_balance").read_text() if cpusets.is_dir() else "",
            "runtime": Path("/proc/sys/kernel/sched_rt_runtime_us").read_text(),
            "online": Path("/sys/devices/system/cpu/online").read_text(),
        }

    # words

    @classmethod
    def condition(cls, kind: str, name: str, which: str) -> dict[str, Any]:
        found = cls.cluster.get(kind, name) or {}
        for one in found.get("status", {}).get("conditions", []):
            if one["type"] == which:
                own: dict[str, Any] = one
                return own
        return {"status": "absent", "reason": "", "message": ""}

    @classmethod
    def ready(cls, kind: str, name: str, which: str) -> bool:
        return bool(cls.condition(kind, name, which)["status"] == "True")

    def until(self, name: str, which: str, status: str, reason: str | None = None) -> dict[str, Any]:
        """Waits for a condition of a promise."""
        def so() -> dict[str, Any] | None:
            own = self.condition("promise", name, which)
            return own if own["status"] == status and reason in (None, own["reason"]) else None
        try:
            found: dict[str, Any] = wait(f"{which} is {status} of promise {name}", so)
            return found
        except TimeoutError:
            print(self.cluster.kubectl("describe", "promise", name, check=False).stdout)
            print(self.cluster.kubectl("get", "pods,giustonodes", "-A", "-o", "wide", check=False).stdout)
            print(self.cluster.kubectl("-n", OWN, "logs", "daemonset/agent", "--tail=20", check=False).stdout)
            raise

    def pods(self, name: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.cluster.get("pods", "-l", f"app={name}")["items"]
        return items

    def share(self, name: str, seconds: float = 3.0) -> float:
        """What the processes of a pod get of a core, by the kernel's own account of them."""
        uid = self.pods(name)[0]["metadata"]["uid"]
        groups = list(Path("/sys/fs/cgroup/cpuacct").glob(f"kubepods/**/pod{uid}/cpuacct.usage"))
        self.assertTrue(groups, "the pod has no cgroup")
        before, begin = int(groups[0].read_text()), time.monotonic()
        time.sleep(seconds)
        return (int(groups[0].read_text()) - before) / 1e9 / (time.monotonic() - begin)

    # what is shown

    def test_0_the_example_of_the_documentation(self) -> None:
        """Commands 6 to 9 of docs/kubernetes.md; `setUpClass` has done those before. Only the images are this test's."""
        cluster = self.cluster
        overlay = cluster.folder / "example"
        overlay.mkdir()
        shutil.copy(ROOT / "kubernetes/deploy/example.yaml", overlay)
        redis = [{"op": "add", "path": "/spec/template/spec/containers/0/command", "value": ["/usr/bin/redis-server"]},
                 {"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": ["--save", ""]}]
        (overlay / "kustomization.yaml").write_text(json.dumps({
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["example.yaml"],
            "images": [{"name": name, "newName": f"giusto.test/{name}", "newTag": "1"} for name in ("redis", "busybox")],
            "patches": [{"target": {"kind": "Deployment", "name": "cache"}, "patch": json.dumps(redis)}],
        }))
        nodes = cluster.kubectl("get", "giustonodes").stdout.splitlines()
        self.assertRegex(nodes[0], r"^NAME +READY ")
        self.assertRegex(nodes[1], rf"^{NODE} +True ")
        cluster.kubectl("apply", "-k", overlay)
        self.until("cache", "Enforced", "True")
        wait("the hogs run", lambda: [pod["status"]["phase"] for pod in self.pods("hog")] == ["Running"] * 2)
        told = cluster.kubectl("get", "promises").stdout.splitlines()
        self.assertRegex(told[0], r"^NAME +PROMISED +NOW +PODS +PLACED +ENFORCED +KEPT")
        self.assertRegex(told[1], r"^cache +as-if-alone .* 1 +True +True ")
        described = cluster.kubectl("describe", "promise", "cache").stdout
        for kind in ("Planned", "Placed", "Enforced", "Kept"):
            self.assertRegex(described, rf"Type: +{kind}\n")

    def test_1_a_promise_is_enforced_beside_hogs_and_goes_with_its_pods(self) -> None:
        cluster = self.cluster
        begin = time.monotonic()
        self.web(workload("hog", "busybox", SPIN, replicas=3))
        print(f"KUBERNETES: enforced {time.monotonic() - begin:.1f} s after kubectl apply")
        wait("the hogs run", lambda: all(pod["status"]["phase"] == "Running" for pod in self.pods("hog")))
        own, hog = self.share("web"), self.share("hog")
        print(f"KUBERNETES: a pod with 3ms/10ms took {own:.3f} of a core beside three hogs, one of which took {hog:.3f}")
        self.assertTrue(0.27 < own < 0.33, f"3 ms in 10 ms, and it took {own:.3f} of a core")
        self.until("web", "Kept", "True")
        self.assertEqual(cluster.get("promise", "web")["status"]["thousandths"], 300)
        print(cluster.kubectl("get", "promises,giustonodes").stdout)

    def test_2_what_does_not_fit_waits_with_the_reason_until_there_is_room(self) -> None:
        cluster = self.cluster
        cores = len(os.sched_getaffinity(0))
        whole = {"promise": "as-if-alone", "tasks": [{"name": "work", "wcet": "1ms", "period": "10ms"}]}
        cluster.apply(promise("whole", whole),
                      workload("whole", "busybox", ["/bin/sleep", "1000"], replicas=cores, schedulerName="giusto"))
        self.until("whole", "Enforced", "True")
        cluster.kubectl("scale", "deployment", "whole", f"--replicas={cores + 1}")
        no = self.until("whole", "Placed", "False", "DoesNotFit")
        self.assertRegex(no["message"], r"1 of \d pods have no node: .*does not fit: ")
        waiting = next(pod for pod in self.pods("whole") if pod["status"]["phase"] == "Pending")
        def told() -> list[str]:
            events = cluster.get("events", "--field-selector", f"involvedObject.uid={waiting['metadata']['uid']}")["items"]
            return [one["message"] for one in events]
        wait("the pod's events say why", lambda: any("it fits with" in one for one in told()))
        wait("kube-scheduler says it, too", lambda: any("giusto: " in one and "available" in one for one in told()))
        print("KUBERNETES: " + next(one for one in told() if "it fits with" in one))
        cluster.kubectl("delete", "pod", next(pod["metadata"]["name"] for pod in self.pods("whole")
                                              if pod["status"]["phase"] == "Running"), "--wait=false")
        cluster.kubectl("scale", "deployment", "whole", f"--replicas={cores}")
        self.until("whole", "Enforced", "True")

    def test_3_deaths(self) -> None:
        """Of the container, the agent, giusto run, the extender, kubelet, containerd and the API server.

        Each time the promise is in force again.
        """
        cluster = self.cluster
        self.web(workload("hog", "busybox", SPIN, replicas=2))
        def enforced() -> dict[str, Any] | None:
            status = giusto_status() or {"services": []}
            return next((one for one in status["services"]
                         if one["threads"] > 0 and one["state"] not in ("awaited", "ended")), None)
        def again(what: str, do: Any) -> None:
            begin = time.monotonic()
            do()
            wait(f"after {what}: in force", enforced)
            self.until("web", "Enforced", "True")
            own = self.share("web", 2.0)
            print(f"KUBERNETES: after {what}: in force and told after {time.monotonic() - begin - 2:.1f} s; share {own:.3f}")
            self.assertTrue(0.25 < own < 0.33, f"after {what} it took {own:.3f} of a core")
        def container() -> None:
            def current() -> dict[str, Any]:
                own: dict[str, Any] = self.pods("web")[0]["status"]["containerStatuses"][0]
                return own
            old = current()["containerID"]
            cluster.ctr("tasks", "kill", "--signal", "SIGKILL", old.split("//")[1])
            wait("the container is another one", lambda: current().get("containerID") != old)
        again("kill -9 of the container", container)
        run = (giusto_status() or {})["pid"]
        again("kill -9 of the agent", lambda: self.kill("agent"))
        self.assertEqual((giusto_status() or {})["pid"], run, "giusto run did not outlive the agent")
        again("kill -9 of giusto run", lambda: (os.kill(run, signal.SIGKILL),
                                                wait("it is gone", lambda: not Path(f"/proc/{run}").exists())))
        again("kill -9 of the extender", lambda: self.kill("extender"))
        again("kill -9 of kubelet", lambda: (cluster.kill("kubelet"), cluster.again("kubelet")))
        again("kill -9 of containerd", lambda: (cluster.kill("containerd"), cluster.again("containerd")))
        again("kill -9 of the API server", lambda: (cluster.kill("apiserver"), time.sleep(3), cluster.again("apiserver"),
                                                    cluster.serves()))
        cluster.kubectl("scale", "deployment", "web", "--replicas=2")
        self.until("web", "Enforced", "True")

    def container(self, name: str) -> dict[str, Any]:
        """One of Giusto's own."""
        pods = self.cluster.get("-n", OWN, "pods")["items"]
        return next(one for pod in pods for one in pod["status"]["containerStatuses"] if one["name"] == name)

    def kill(self, container: str) -> None:
        """kill -9 of a container of Giusto's own, which kubelet then starts again."""
        own = self.container(container)
        self.cluster.ctr("tasks", "kill", "--signal", "SIGKILL", own["containerID"].split("//")[1])
        def runs_again() -> bool:
            pods = self.cluster.get("-n", OWN, "pods")["items"]
            return any(one["name"] == container and one["ready"] and one["restartCount"] > own["restartCount"]
                       for pod in pods for one in pod["status"].get("containerStatuses", []))
        wait(f"{container} runs again", runs_again)

    def test_4_what_the_api_refuses_and_what_agents_may(self) -> None:
        for service, expected in (
            ({"promise": "as-if-alone", "tasks": [{"wcet": "1", "period": "10ms"}]}, "wcet"),
            ({"promise": {"p99": "9ms"}, "arrivals": {"poisson": "40/s"}, "tasks": [{"wcet": "1ms", "period": "9ms"}]},
             "not both"),
            ({"promise": "leftovers", "start": "x"}, "unknown field"),
        ):
            no = self.cluster.kubectl("apply", "--validate=strict", "-f", "-", check=False,
                                      text=json.dumps(promise("bad", service)))
            self.assertIn(expected, no.stderr)
        self.cluster.apply(promise("bad", {"promise": "always"}))
        self.assertIn("always", self.until("bad", "Planned", "False", "BadInput")["message"])
        token = self.cluster.kubectl("-n", OWN, "create", "token", "agent").stdout.strip()
        for verb, kind, part, allowed in (
            ("list", "pods", "", True), ("get", "secrets", "", False), ("patch", "nodes", "status", False),
            ("create", "pods", "", False), ("patch", "promises.giusto.io", "status", False),
            ("patch", "giustonodes.giusto.io", "status", True),
        ):
            said = self.cluster.kubectl("auth", "can-i", verb, kind, f"--subresource={part}",
                                        "--as", f"system:serviceaccount:{OWN}:agent", check=False).stdout
            self.assertEqual(said.strip() == "yes", allowed, f"{verb} {kind} {part}: {said}")
        foreign = {"apiVersion": "giusto.io/v1alpha1", "kind": "GiustoNode", "metadata": {"name": "another"}}
        no = self.cluster.kubectl("--token", token, "create", "-f", "-", check=False, text=json.dumps(foreign))
        self.assertIn("its own node only", no.stderr)

    def test_5_redis_beside_hogs_is_measured(self) -> None:
        """The same requests to two Redis beside hogs, one with a promise: what they take, by the one who asks."""
        cluster = self.cluster
        task = {"name": "get", "wcet": "200us", "period": "2ms"}
        serve = ["/usr/bin/redis-server", "--save", "", "--protected-mode", "no"]
        cluster.apply(promise("cache", {"promise": "as-if-alone", "tasks": [task]}),
                      workload("cache", "redis", serve, schedulerName="giusto"), workload("plain", "redis", serve),
                      workload("hog", "busybox", SPIN, replicas=4))
        self.until("cache", "Enforced", "True")
        wait("all run", lambda: all(pod["status"]["phase"] == "Running" for name in ("plain", "hog") for pod in self.pods(name)))
        took: dict[str, list[float]] = {"cache": [], "plain": []}
        to = {name: socket.create_connection((self.pods(name)[0]["status"]["podIP"], 6379), timeout=30) for name in took}
        for _ in range(4):  # in turns
            for name, connection in to.items():
                took[name] += requests(connection, 500)
        for connection in to.values():
            connection.close()
        at = {name: [sorted(each)[int(part * (len(each) - 1))] * 1e3 for part in (0.5, 0.99)] for name, each in took.items()}
        own, plain = at["cache"], at["plain"]
        print(f"KUBERNETES: Redis beside four hogs, 2,000 requests each: with its promise "
              f"p50 {own[0]:.3f} ms, p99 {own[1]:.3f} ms; "
              f"without p50 {plain[0]:.3f} ms, p99 {plain[1]:.3f} ms; ratio of p99 {plain[1] / own[1]:.1f}")
        wait("what its requests take is told", lambda: "p99" in cluster.get("promise", "cache")["status"].get("now", ""))
        print(cluster.kubectl("get", "promises").stdout)

    def test_5_sites_and_pods_that_run_become_promises(self) -> None:
        """'giusto export kubernetes' for all example sites, and 'giusto init --kubernetes' in the agent of a pod's node."""
        cluster, giusto = self.cluster, ROOT / "target/release/giusto"
        written = 0
        for site in sorted((ROOT / "sites").glob("*.yaml")):
            text = subprocess.run([giusto, "export", "kubernetes", site], capture_output=True, text=True, check=False).stdout
            if "kind: Promise" in text:
                told = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", text=text).stdout
                written += told.count("created (server dry run)")
        self.assertGreater(written, 60)
        serve = ["/usr/bin/redis-server", "--save", "", "--protected-mode", "no"]
        cluster.apply(workload("plain", "redis", serve))
        wait("it runs", lambda: [pod["status"]["phase"] for pod in self.pods("plain")] == ["Running"])
        pods = cluster.kubectl("get", "pods", "-l", "app=plain", "-o", "json").stdout
        listed = Path("/run/giusto-kubernetes/pods.json")
        done = threading.Event()
        def ask() -> None:
            with socket.create_connection((self.pods("plain")[0]["status"]["podIP"], 6379), timeout=30) as connection:
                while not done.is_set():
                    requests(connection, 1)
                    time.sleep(0.01)
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            # 'kubectl exec' would need an address of the node that is no loopback one.
            listed.write_text(pods)
            text = cluster.ctr("tasks", "exec", "--exec-id", "init", self.container("agent")["containerID"].split("//")[1],
                               "/usr/bin/giusto", "init", "--kubernetes", listed, "--for", "5s").stdout
        finally:
            done.set()
            asking.join()
            listed.unlink()
        self.assertIn('"app": "plain"', text)
        cluster.kubectl("apply", "-f", "-", text=text)
        self.until("plain", "Planned", "True")
        print("KUBERNETES: " + next(line for line in text.splitlines() if "What was observed" in line).lstrip("# "))

    def test_6_rolling_updates_scale_and_promises_that_change(self) -> None:
        cluster = self.cluster
        cluster.apply(promise("web", {"promise": {"supply": "2ms/10ms"}}),
                      workload("web", "busybox", SPIN, 2, schedulerName="giusto"))
        self.until("web", "Enforced", "True")
        cluster.kubectl("set", "env", "deployment/web", "GENERATION=2")
        cluster.kubectl("rollout", "status", "deployment/web", "--timeout=100s")
        wait("the old pods are gone", lambda: len(self.pods("web")) == 2)
        self.until("web", "Enforced", "True")
        cluster.apply(promise("web", {"promise": {"supply": "1ms/10ms"}}))
        wait("the smaller budget is in force",
             lambda: [one["budget_ns"] for one in (giusto_status() or {})["services"]] == [10**6, 10**6])
        for replicas in (4, 1):
            cluster.kubectl("scale", "deployment", "web", f"--replicas={replicas}")
            wait(f"{replicas} pods have their shares",
                 lambda: cluster.get("promise", "web")["status"].get("enforced") == replicas)
            self.until("web", "Enforced", "True")
        cluster.kubectl("delete", "promise", "web")
        wait("no promise, and nothing in force", lambda: giusto_status() is None)
        uid = self.pods("web")[0]["metadata"]["uid"]
        groups = [path.read_text() for path in Path("/sys/fs/cgroup/cpu").glob(f"kubepods/**/pod{uid}/*/cgroup.procs")]
        self.assertEqual(len([text for text in groups if text]), 2, "a container's processes are not in its cpu cgroup again")

    def test_7_a_change_that_does_not_fit_changes_nothing_also_after_deaths(self) -> None:
        """Of the agent, and of the agent with giusto run, and of the extender. Another pod gets no room that is in force."""
        cluster = self.cluster
        cores = len(os.sched_getaffinity(0))
        cluster.apply(promise("web", {"promise": {"supply": "6ms/10ms"}}),
                      workload("web", "busybox", ["/bin/sleep", "1000"], cores, schedulerName="giusto"))
        self.until("web", "Enforced", "True")
        def shares() -> list[int]:
            return [one["budget_ns"] * 10**7 // one["period_ns"] for one in (giusto_status() or {"services": []})["services"]]
        before = shares()
        cluster.apply(promise("web", {"promise": {"supply": "99ms/100ms"}}))
        self.assertIn("stays in force", self.until("web", "Enforced", "False", "DoesNotFit")["message"])
        run = (giusto_status() or {})["pid"]
        for what, do in (
            ("the agent", lambda: self.kill("agent")),
            ("the agent and giusto run", lambda: (os.kill(run, signal.SIGKILL), self.kill("agent"))),
            ("the extender", lambda: self.kill("extender")),
        ):
            do()
            wait(f"kill -9 of {what}: what was in force is so again", lambda: shares() == before)
            self.until("web", "Enforced", "False", "DoesNotFit")
            self.assertEqual(shares(), before, f"after kill -9 of {what}")
        # What does not fit beside what is in force is refused by the scheduler.
        cluster.apply(promise("late", {"promise": {"supply": "6ms/10ms"}}),
                      workload("late", "busybox", ["/bin/sleep", "1000"], schedulerName="giusto"))
        self.until("late", "Placed", "False", "DoesNotFit")
        self.assertEqual(shares(), before)
        cluster.kubectl("delete", "deployment", "late")
        cluster.apply(promise("web", {"promise": {"supply": "6ms/10ms"}}))
        self.until("web", "Enforced", "True")

    def test_8_agents_that_are_deleted_leave_the_node_as_it_was(self) -> None:
        """Before their promises, as those do who are in a hurry."""
        cluster = self.cluster
        self.web()
        cluster.kubectl("-n", OWN, "rollout", "restart", "daemonset/agent")
        cluster.kubectl("-n", OWN, "rollout", "status", "daemonset/agent", "--timeout=100s")
        self.assertIsNotNone(giusto_status(), "giusto run did not outlive the agent that was replaced")
        cluster.kubectl("-n", OWN, "delete", "daemonset", "agent")
        self.left_as_found()
        self.until("web", "Enforced", "Unknown", "AgentSilent")
        wait("giusto.io/cpu is not published", lambda: "giusto.io/cpu" not in cluster.get("node", NODE)["status"]["allocatable"])
        cluster.kubectl("apply", "-k", cluster.folder / "overlay")
        self.until("web", "Enforced", "True")

    def web(self, *beside: dict[str, Any]) -> None:
        """A pod of `web` spins, and has its share."""
        self.cluster.apply(promise("web", {"promise": {"supply": "3ms/10ms"}}),
                           workload("web", "busybox", SPIN, schedulerName="giusto"), *beside)
        self.until("web", "Enforced", "True")

    def left_as_found(self) -> None:
        """Waits until the node is, with the pod of `web` still there."""
        uid = self.pods("web")[0]["metadata"]["uid"]
        def in_its_cgroup() -> bool:
            procs = list(Path("/sys/fs/cgroup/cpu").glob(f"kubepods/**/pod{uid}/*/cgroup.procs"))
            return len(procs) == 2 and all(path.read_text() for path in procs)
        wait("giusto run has ended", lambda: giusto_status() is None)
        wait("the node is as it was", lambda: in_its_cgroup() and not Path("/run/giusto-kubernetes").exists())
        self.assertEqual(self.host(), self.before)

    def test_9_a_giusto_run_of_the_host_is_left_alone(self) -> None:
        """Its node takes no promises as long as it is there."""
        cluster = self.cluster
        site = cluster.folder / "host.yaml"
        site.write_text("giusto: 1\nhosts: {host: {cores: 0}}\nservices: {own: {start: sleep 1000, promise: leftovers}}\n")
        own = subprocess.Popen([TARGET / "release/giusto", "run", site], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait("the host's own giusto enforces", lambda: (giusto_status(HOST) or {}).get("state") == "enforcing")
            wait("the node says so", lambda: self.condition("giustonode", NODE, "Ready")["reason"] == "AnotherGiusto")
            cluster.apply(promise("web", {"promise": {"supply": "3ms/10ms"}}),
                          workload("web", "busybox", ["/bin/sleep", "1000"], schedulerName="giusto"))
            self.until("web", "Placed", "False", "DoesNotFit")
            self.assertIsNone(giusto_status())
            host = giusto_status(HOST) or {}
            self.assertEqual((host["pid"], [one["name"] for one in host["services"]]), (own.pid, ["own"]))
        finally:
            own.terminate()
            own.wait(60)
        self.until("web", "Enforced", "True")

    def test_all_of_it_is_taken_away_at_once(self) -> None:
        """As docs/kubernetes.md says, and last: rights and kinds go with the agents."""
        cluster = self.cluster
        self.web()
        cluster.kubectl("delete", "-k", cluster.folder / "overlay", "--wait=false")
        self.left_as_found()

    def tearDown(self) -> None:
        self.cluster.kubectl("delete", "deployments,promises", "--all", "--wait=true", check=False)
        wait("all pods are gone", lambda: not self.cluster.get("pods")["items"])
        wait("giusto run has ended", lambda: giusto_status() is None)
        self.assertEqual(self.host(), self.before, "the host is not as it was")
        self.law.require_alive()
        self.assertEqual(self.law.broken, [])


if __name__ == "__main__":
    os.environ.setdefault("GIUSTO_TARGET", str(TARGET))
    unittest.main(verbosity=2)
