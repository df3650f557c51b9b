"""Objects that tests create in the cluster."""
from typing import Any


def workload(name: str, image: str, command: list[str], replicas: int = 1, **spec: Any) -> dict[str, Any]:
    """A Deployment whose pods have the label app: NAME."""
    container = {"name": "main", "image": f"giusto.test/{image}:1", "imagePullPolicy": "Never", "command": command}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec}}},
    }


def promise(name: str, service: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "giusto.io/v1alpha1", "kind": "Promise", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": name}}, "service": service, **spec}}
