"""A real Kubernetes of one node on this machine, from etcd, kube-apiserver, kube-scheduler and kube-controller-manager to kubelet
and containerd.

Everything it writes is in one folder, listens on 127.0.0.1, and ends with it; what is outside of it (cgroups, mounts, the file of
the container network) is taken away at the end. Nothing is fetched here: build.sh has built the programs, and Debian has the
rest.
"""
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import images
from guard import Guard

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PROGRAMS = TARGET / "kubernetes"
RECORD = PROGRAMS / "host.json"
NODE = "node-1"
API = 16443
ETCD = 12379
PATIENCE = 120.0
CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "giusto.test/pause:1"
restrict_oom_score_adj = true
disable_apparmor = true
[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{folder}/net.d"
"""
NETWORK = {
    "cniVersion": "0.4.0", "name": "giusto-test",
    "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.77.0/24"}]],
                                          "dataDir": "{folder}/ipam", "routes": [{"dst": "0.0.0.0/0"}]}}],
}


def wait(what: str, done: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """Waits until something is so; returns it."""
    end = time.monotonic() + patience
    while True:
        found = done()
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {patience:.0f} s")
        time.sleep(0.1)


class Cluster:
    """Starts with `start`, ends with `stop`, whatever failed between."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.commands: dict[str, list[str]] = {}
        self.kubeconfig = folder / "admin.kubeconfig"
        self.guard = Guard(RECORD, folder)

    # processes

    def spawn(self, name: str, *words: Any) -> None:
        """Starts a component; its output goes to logs/NAME.log."""
        command = [str(word) for word in words]
        self.commands[name] = command
        with (self.folder / "logs" / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                                  start_new_session=True,
                                                  env={**os.environ, "KUBECONFIG": str(self.kubeconfig)})
        self.guard.runs(name, self.running[name].pid)

    def kill(self, name: str, how: int = signal.SIGKILL) -> None:
        """Ends a component and waits for it."""
        process = self.running.pop(name)
        if process.poll() is None:
            process.send_signal(how)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def again(self, name: str) -> None:
        """Starts a component that was killed as before."""
        self.spawn(name, *self.commands[name])

    def log(self, name: str) -> str:
        path = self.folder / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # the cluster

    def start(self) -> None:
        for part in ("logs", "pki", "net.d", "kubelet"):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        self.certificates()
        self.spawn("etcd", "etcd", "--data-dir", self.folder / "etcd", "--listen-client-urls", f"http://127.0.0.1:{ETCD}",
                   "--advertise-client-urls", f"http://127.0.0.1:{ETCD}", "--listen-peer-urls", "http://127.0.0.1:12380",
                   "--unsafe-no-fsync")
        (self.folder / "containerd.toml").write_text(CONTAINERD.format(folder=self.folder))
        self.spawn("containerd", "containerd", "--config", self.folder / "containerd.toml")
        (self.folder / "net.d/10-test.conflist").write_text(json.dumps(NETWORK).replace("{folder}", str(self.folder)))
        self.apiserver()
        wait("containerd", lambda: self.ctr("version", check=False).returncode == 0)
        self.import_images()
        self.spawn("controller-manager", PROGRAMS / "kube-controller-manager", "--kubeconfig", self.kubeconfig, "--secure-port=0",
                   "--leader-elect=false", "--use-service-account-credentials=true", "--service-account-private-key-file",
                   self.folder / "pki/sa.key", "--root-ca-file", self.folder / "pki/ca.crt",
                   "--flex-volume-plugin-dir", self.folder / "plugins",
                   "--controllers", "*,-nodeipam,-route,-service-lb-controller,-cloud-node-lifecycle")
        self.scheduler(None)
        self.kubelet()
        ready = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        wait("node Ready", lambda: self.kubectl("get", "node", NODE, "-o", ready, check=False).stdout == "True")

    def certificates(self) -> None:
        pki = self.folder / "pki"
        def openssl(*words: Any) -> None:
            subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", pki / "ca.key",
                "-out", pki / "ca.crt", "-days", "2", "-subj", "/CN=giusto-test-ca")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", pki / "api.key",
                "-out", pki / "api.csr", "-subj", "/CN=kube-apiserver")
        names = pki / "names"
        names.write_text("subjectAltName=IP:127.0.0.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes.default.svc\n")
        openssl("x509", "-req", "-in", pki / "api.csr", "-CA", pki / "ca.crt", "-CAkey", pki / "ca.key", "-CAcreateserial",
                "-out", pki / "api.crt", "-days", "2", "-extfile", names)
        openssl("genrsa", "-out", pki / "sa.key", "2048")
        openssl("rsa", "-in", pki / "sa.key", "-pubout", "-out", pki / "sa.pub")
        (self.folder / "tokens.csv").write_text(
            'admin,admin,admin,"system:masters"\n'
            f'kubelet,system:node:{NODE},kubelet,"system:nodes"\n'
            'scheduler,system:kube-scheduler,scheduler\n')
        for user in ("admin", "kubelet", "scheduler"):
            self.config(user)

    def config(self, user: str) -> Path:
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"https://127.0.0.1:{API}",
                                                      "certificate-authority": str(self.folder / "pki/ca.crt")}}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        }))
        return path

    def apiserver(self) -> None:
        pki = self.folder / "pki"
        self.spawn("apiserver", PROGRAMS / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{ETCD}", f"--secure-port={API}",
                   "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--tls-cert-file={pki}/api.crt",
                   f"--tls-private-key-file={pki}/api.key", f"--token-auth-file={self.folder}/tokens.csv",
                   "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={pki}/sa.pub",
                   f"--service-account-signing-key-file={pki}/sa.key", "--authorization-mode=Node,RBAC",
                   "--enable-admission-plugins=NodeRestriction", "--endpoint-reconciler-type=none", "--allow-privileged=true",
                   "--service-cluster-ip-range=10.96.0.0/16", f"--kubelet-certificate-authority={pki}/ca.crt")
        self.serves()

    def serves(self) -> None:
        """Waits until the API server answers."""
        wait("apiserver", lambda: self.kubectl("get", "--raw", "/readyz", check=False).stdout == "ok")

    def scheduler(self, extender: str | None) -> None:
        """Starts kube-scheduler, with an extender at this address."""
        config: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.folder / "scheduler.kubeconfig")},
        }
        if extender:
            config["extenders"] = [{"urlPrefix": f"http://{extender}", "filterVerb": "filter", "prioritizeVerb": "prioritize",
                                    "bindVerb": "bind", "weight": 10, "nodeCacheCapable": True, "ignorable": False}]
        path = self.folder / "scheduler.yaml"
        path.write_text(json.dumps(config))
        self.spawn("scheduler", PROGRAMS / "kube-scheduler", "--config", path, "--secure-port=0")

    def kubelet(self) -> None:
        path = self.folder / "kubelet.yaml"
        path.write_text(json.dumps({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "cgroupfs",
            "failSwapOn": False, "failCgroupV1": False, "healthzPort": 0, "authentication": {"anonymous": {"enabled": True},
            "webhook": {"enabled": False}}, "authorization": {"mode": "AlwaysAllow"}, "address": "127.0.0.1", "port": 10350,
            "containerRuntimeEndpoint": f"unix://{self.folder}/containerd.sock", "enforceNodeAllocatable": ["pods"],
            "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%",
                             "nodefs.inodesFree": "1%"}, "imageGCHighThresholdPercent": 100,
            "volumePluginDir": str(self.folder / "plugins"), "resolvConf": "", "makeIPTablesUtilChains": False,
            "podLogsDir": str(self.folder / "pod-logs"),
        }))
        self.spawn("kubelet", PROGRAMS / "kubelet", "--config", path, "--kubeconfig", self.folder / "kubelet.kubeconfig",
                   "--hostname-override", NODE, "--root-dir", self.folder / "kubelet", "--cert-dir", self.folder / "kubelet/pki")

    # images

    def import_images(self) -> None:
        archives = self.folder / "images"
        archives.mkdir(exist_ok=True)
        busybox = {"bin/busybox": Path("/bin/busybox"), **{f"bin/{name}": Path("/bin/busybox") for name in ("sh", "sleep")}}
        images.archive(archives / "pause.tar", "giusto.test/pause:1", {"bin/busybox": Path("/bin/busybox")},
                       ["/bin/busybox", "sleep", "infinity"])
        images.archive(archives / "busybox.tar", "giusto.test/busybox:1", busybox, ["/bin/sh"])
        redis = Path("/usr/bin/redis-server").resolve()
        images.archive(archives / "redis.tar", "giusto.test/redis:1",
                       {"usr/bin/redis-server": redis, "bin/sh": Path("/bin/busybox"), **images.libraries(redis)},
                       ["/usr/bin/redis-server"])
        subprocess.run([ROOT / "kubernetes/image.sh", archives / "giusto.tar", "giusto.test/giusto-kubernetes:1"], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)})
        images.archive(archives / "scheduler.tar", "giusto.test/kube-scheduler:1",
                       {"usr/bin/kube-scheduler": PROGRAMS / "kube-scheduler"}, ["/usr/bin/kube-scheduler"])
        for file in sorted(archives.glob("*.tar")):
            self.ctr("images", "import", file)

    # tools

    def ctr(self, *words: Any, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["ctr", "--address", str(self.folder / "containerd.sock"), "--namespace", "k8s.io", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=check, timeout=120)

    def kubectl(self, *words: Any, check: bool = True, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [str(PROGRAMS / "kubectl"), "--kubeconfig", str(self.kubeconfig), *map(str, words)]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done

    def get(self, *words: Any) -> Any:
        """An object, or a list of them; `None`: it is not there."""
        done = self.kubectl("get", *words, "-o", "json", check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    # the end

    def stop(self) -> None:
        """Ends all of it, also what containers are left, and takes away what they have left outside of the folder."""
        for name in ("kubelet", "scheduler", "controller-manager"):
            if name in self.running:
                self.kill(name, signal.SIGTERM)
        if "containerd" in self.running:
            for task in self.ctr("tasks", "list", "-q", check=False).stdout.split():
                self.ctr("tasks", "delete", "--force", task, check=False)
            for container in self.ctr("containers", "list", "-q", check=False).stdout.split():
                self.ctr("containers", "delete", container, check=False)
        for name in list(self.running):
            self.kill(name, signal.SIGTERM)
        logs = TARGET / "kubernetes/logs"  # of the last run, to be read after a failure
        shutil.rmtree(logs, ignore_errors=True)
        shutil.copytree(self.folder / "logs", logs, dirs_exist_ok=True)
        self.guard.end()
