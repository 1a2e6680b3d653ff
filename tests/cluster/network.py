"""What network tests share: servers to reach, and calls of an agent that try to."""

from episode_operator.kube.client import Object
from tests.cluster import kubectl
from tests.cluster.episodes import Episodes, terminal

API_SERVER = "10.96.0.1 443"


def reach(address: str) -> Object:
    """A call that says REACHED if a connection to `host port` is accepted."""
    return terminal(f"nc -w 2 {address} </dev/null && echo REACHED")


def reached(answers: list[str]) -> list[bool]:
    return ["REACHED" in answer for answer in answers]


def allow(rule: Object) -> Object:
    return {"network": {"mode": "Allowlist", "allow": [rule]}}


async def servers(episodes: Episodes, image: str, *names: str) -> list[str]:
    """Addresses of new pods labelled app=NAME, beside the Episodes, on the ports 8001 and 8002."""
    listen = "python3 -m http.server 8001 & exec python3 -m http.server 8002"
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [
                    {
                        "name": "server",
                        "image": image,
                        "command": ["sh", "-c", listen],
                        "readinessProbe": {"tcpSocket": {"port": 8002}, "periodSeconds": 1},
                    }
                ],
            },
        }
        for name in names
    ]
    ran = await kubectl.apply(*pods, namespace=episodes.namespace)
    assert ran.code == 0, ran.stderr
    where = ("-n", episodes.namespace)
    await kubectl.check("wait", "--for=condition=Ready", "pods", *names, *where, "--timeout=300s")
    found = [await kubectl.get("pod", name, namespace=episodes.namespace) for name in names]
    return [pod["status"]["podIP"] for pod in found]
