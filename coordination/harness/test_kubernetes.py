"""packaging/kubernetes/zookeeper.yaml: every object is one that Kubernetes takes, they fit together, and servers with its zoo.cfg
serve."""
import copy
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import kubernetes_validate
import yaml

import wire
from ensemble import ROOM, Ensemble

FILE = ROOM.parent / "packaging" / "kubernetes" / "zookeeper.yaml"
VERSIONS = ("1.28", "1.34")


class Manifest(unittest.TestCase):
    def setUp(self):
        self.objects = {one["kind"]: one for one in yaml.safe_load_all(FILE.read_text())}
        self.set = self.objects["StatefulSet"]["spec"]
        self.container = self.set["template"]["spec"]["containers"][0]
        lines = self.objects["ConfigMap"]["data"]["zoo.cfg"].splitlines()
        self.config = dict(line.split("=", 1) for line in lines if not line.startswith("#"))

    def test_kubernetes_takes_it(self):
        for version in VERSIONS:
            for one in self.objects.values():
                kubernetes_validate.validate(one, version, strict=True)
            wrong = copy.deepcopy(self.objects["StatefulSet"])
            wrong["spec"]["replica"] = wrong["spec"].pop("replicas")
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(wrong, version, strict=True)

    def test_its_parts_fit_together(self):
        name, labels = self.objects["StatefulSet"]["metadata"]["name"], self.set["template"]["metadata"]["labels"]
        service = self.objects["Service"]
        self.assertEqual(self.set["serviceName"], service["metadata"]["name"])
        for selector in (self.set["selector"]["matchLabels"], service["spec"]["selector"],
                         self.objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"]):
            self.assertEqual(labels, selector)
        servers = {key: value for key, value in self.config.items() if key.startswith("server.")}
        domain, count = self.set["serviceName"], self.set["replicas"]
        self.assertEqual(servers, {f"server.{n + 1}": f"{name}-{n}.{domain}:2888:3888" for n in range(count)})
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.assertEqual(ports, {port["name"]: port["port"] for port in service["spec"]["ports"]})
        self.assertEqual((str(ports["client"]), ports["quorum"], ports["election"]), (self.config["clientPort"], 2888, 3888))
        mounts = {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}
        volumes = {volume["name"] for volume in self.set["template"]["spec"]["volumes"]}
        claims = {claim["metadata"]["name"] for claim in self.set["volumeClaimTemplates"]}
        self.assertEqual(set(mounts), volumes | claims)
        self.assertEqual(self.config["dataDir"], mounts["data"])

    def test_a_server_has_the_number_of_its_pod(self):
        with tempfile.TemporaryDirectory() as d:
            (Path(d) / "giusto-zookeeper").write_text("#!/bin/sh\necho \"$@\"\n")
            (Path(d) / "giusto-zookeeper").chmod(0o755)
            *shell, script = self.container["command"]
            for pod, number in (("zookeeper-0", "1"), ("zookeeper-2", "3")):
                environment = {"HOSTNAME": pod, "PATH": f"{d}:/usr/bin:/bin"}
                done = subprocess.run([*shell, script.replace(self.config["dataDir"], d)], env=environment,
                                      capture_output=True, text=True, check=True)
                self.assertEqual("start-foreground /etc/giusto/zoo.cfg\n", done.stdout)
                self.assertEqual(number, (Path(d) / "myid").read_text().strip())

    def test_servers_with_its_configuration_serve(self):
        own = {key: value for key, value in self.config.items() if not re.match(r"server\.|dataDir|clientPort", key)}
        with tempfile.TemporaryDirectory() as d, Ensemble(Path(d) / "e", ["giusto"] * 3, own) as ensemble:
            session = wire.Session(ensemble.wait_whole().client, timeout=30)
            session.create("/kubernetes")
            session.close()


if __name__ == "__main__":
    unittest.main()
