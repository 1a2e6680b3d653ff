"""Keys, certificates and kubeconfigs of the built-in cluster, made by the openssl program.

They survive `down`, so a kubeconfig that somebody holds stays good; `down --purge` ends them.
"""

import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.testbed.files import write_if_changed
from tests.testbed.paths import (
    API_SERVER,
    KUBECONFIG,
    NODE_ADDRESS,
    NODE_NAME,
    PKI,
    SERVICE_ADDRESS,
)
from tests.testbed.shell import run

DAYS = "3650"
NAMES = ",".join(
    [
        *(f"DNS:{name}" for name in ("localhost", "kubernetes", "kubernetes.default")),
        "DNS:kubernetes.default.svc",
        "DNS:kubernetes.default.svc.cluster.local",
        *(f"IP:{address}" for address in ("127.0.0.1", NODE_ADDRESS, SERVICE_ADDRESS)),
    ]
)


@dataclass(frozen=True)
class Identity:
    """Who a client certificate says its holder is: Kubernetes takes CN as user and O as group."""

    name: str
    subject: str


IDENTITIES = (
    Identity("admin", "/O=system:masters/CN=testbed-admin"),
    Identity("apiserver", "/CN=kube-apiserver"),
    Identity("apiserver-kubelet", "/O=system:masters/CN=kube-apiserver-kubelet-client"),
    Identity("kubelet", f"/O=system:nodes/CN=system:node:{NODE_NAME}"),
    Identity("kube-controller-manager", "/CN=system:kube-controller-manager"),
    Identity("kube-scheduler", "/CN=system:kube-scheduler"),
    Identity("kube-proxy", "/CN=system:kube-proxy"),
    Identity("kube-router", "/CN=system:kube-router"),
)
SERVING = "apiserver"
NO_KUBECONFIG = ("apiserver", "apiserver-kubelet")


def ensure() -> None:
    """Make whatever is missing. Existing keys are kept."""
    PKI.mkdir(parents=True, exist_ok=True, mode=0o700)
    authority = PKI / "ca.crt"
    if not authority.exists():
        for stale in PKI.glob("*"):
            stale.unlink()
        _key("ca")
        arguments = ["-key", str(PKI / "ca.key"), "-subj", "/CN=episode-testbed", "-days", DAYS]
        run(["openssl", "req", "-x509", "-new", *arguments, "-out", str(authority)])
    if not (PKI / "service-accounts.pub").exists():
        _key("service-accounts")
        key, public = PKI / "service-accounts.key", PKI / "service-accounts.pub"
        run(["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(public)])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(_certificate, IDENTITIES))
    for identity in IDENTITIES:
        if identity.name not in NO_KUBECONFIG:
            file = kubeconfig_of(identity.name)
            write_if_changed(file, _kubeconfig(identity.name), mode=0o600)


def kubeconfig_of(name: str) -> Path:
    """The kubeconfig file of an identity; the administrator's is the one that people use."""
    return KUBECONFIG if name == "admin" else PKI / f"{name}.kubeconfig"


def _key(name: str) -> None:
    target = PKI / f"{name}.key"
    partial = PKI / f"{name}.key.partial"
    curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    run(["openssl", "genpkey", *curve, "-out", str(partial)])
    partial.chmod(0o600)
    partial.rename(target)


def _certificate(identity: Identity) -> None:
    certificate = PKI / f"{identity.name}.crt"
    if certificate.exists():
        return
    _key(identity.name)
    extensions = PKI / f"{identity.name}.ext"
    usage = "serverAuth,clientAuth" if identity.name == SERVING else "clientAuth"
    names = f"subjectAltName={NAMES}\n" if identity.name == SERVING else ""
    extensions.write_text(f"extendedKeyUsage={usage}\n{names}")
    key = ["-key", str(PKI / f"{identity.name}.key")]
    request = run(["openssl", "req", "-new", *key, "-subj", identity.subject])
    partial = PKI / f"{identity.name}.crt.partial"
    authority = ["-CA", str(PKI / "ca.crt"), "-CAkey", str(PKI / "ca.key")]
    output = ["-days", DAYS, "-extfile", str(extensions), "-out", str(partial)]
    run(["openssl", "x509", "-req", *authority, *output], stdin=request)
    partial.rename(certificate)


def _kubeconfig(name: str) -> str:
    def embedded(file: str) -> str:
        return base64.b64encode((PKI / file).read_bytes()).decode()

    user = {
        "client-certificate-data": embedded(f"{name}.crt"),
        "client-key-data": embedded(f"{name}.key"),
    }
    cluster = {"server": API_SERVER, "certificate-authority-data": embedded("ca.crt")}
    context = {"cluster": "testbed", "user": name}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "testbed", "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": "testbed", "context": context}],
        "current-context": "testbed",
    }
    return yaml.safe_dump(document, sort_keys=False)
