"""The commands of the documentation, and how each is proven to work as it stands there."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "examples").rglob("README.md"),
        *(page for page in (ROOT / "docs").glob("*.md") if page != TUTORIAL),
    ]
)
"""Pages whose commands are in the tables below; the tutorial is run as a whole."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(
    r"(?:\w+=\S+ )*(?:\$ )?(?:[\w./]*/)?"
    r"(make|kubectl|kubectl_complete-episode|episodectl|helm|trainer-bridge|pip|python3?|git|promtool|curl|export|envsubst"
    r"|docker|cosign|sha256sum|tar|gh|syft) "
)
_SHELL = ("", "sh", "bash", "console")


def blocks(page: Path) -> Iterator[str]:
    """What stands in the page's blocks of commands."""
    for language, block in FENCE.findall(page.read_text()):
        if language in _SHELL:
            yield block.replace("\\\n", " ")


def commands(page: Path) -> Iterator[str]:
    """Each command of a page, in one line, without the prompt and without its comment."""
    for block in blocks(page):
        for line in block.splitlines():
            text = re.sub(r"\s+#.*$", "", line.strip()).removeprefix("$ ")
            if _PROGRAM.match(f"{text} "):
                yield re.sub(r"\s+", " ", text).strip()


RUN: Final[Mapping[str, Mapping[str, str]]] = {
    "README.md": {
        "kubectl apply -f episode.yaml": r"episode.episodes.dev/hello created",
        "kubectl wait --for=condition=Finished episode/hello --timeout=10m": r"condition met",
        "kubectl get epi,epr": r"episode.episodes.dev/hello +Finished +\w+ [\s\S]*episoderesult",
        "kubectl describe episode hello": r"PodCreated[\s\S]*SandboxReady[\s\S]*AgentCompleted",
        "episodectl run --image debian:12-slim --workdir /workspace --verifier test.sh "
        '--instruction "Write the word walnut to the file /workspace/summary.txt." '
        "--model http://episodes-vllm.episode-system.svc:8000/Qwen/Qwen3-4B": r'"verdict":"\w+"',
        "kubectl get epr -l episodes.dev/run=coding -o wide": r"DELIVERY[\s\S]*coding-000008-m0",
    },
    "examples/README.md": {
        "export TASK_IMAGE=registry.example.com/episode-operator/task-python@sha256:...": "",
        "export MODEL_ENDPOINT=http://episodes-vllm.episode-system.svc:8000 MODEL_NAME=policy": "",
        "envsubst < examples/01-hello/episode.yaml | kubectl apply -f -": r"(created|configured)",
    },
    "docs/episodectl.md": {
        "episodectl list": r'"name":"hello"',
        "kubectl episode list": r'"name":"hello"',
        "episodectl run tasks/sort-lines --agent Oracle": r'"verdict":"Passed"',
        "episodectl run rows.jsonl --model http://...": r'"verdict":"\w+"',
        "episodectl list --run coding --verdict Failed --verdict NoVerdict": r"coding-000008-m0",
        "episodectl list -A --phase Running | jq -r .podName": r"^busy-a0$",
        "episodectl watch hello": r'"verdict":"\w+"',
        "episodectl logs hello": r'"role":"assistant"',
        "episodectl logs hello -f": r'"role":"assistant"',
        "episodectl logs hello -f | jq -r 'select(.role == \"tool\").content'": "",
        "episodectl show hello": r'"kind":"turn"',
        "episodectl show hello --tokens": r'"sampled":true',
        "episodectl show hello | jq -r 'select(.kind == \"episode\").verifierOutput'": "",
        "episodectl retry coding-000008-m0": r'"verdict":"Failed"',
        "episodectl golden tasks/ rows.jsonl --image registry.example.com/{name}:{tag} -p 8": (
            r"pass"
        ),
        "episodectl export --run coding > coding.jsonl": "",
        "episodectl export hello --no-messages | jq .reward": r"^[01]$",
        "episodectl export --run coding --safetensors arrays/": "",
        "episodectl top -n training": r'"verdicts"',
        "episodectl cancel hello world": r"deleted",
        "episodectl --install-completion": r"bash completion installed",
        "kubectl_complete-episode show hel": r"^hello$[\s\S]*^:0$",
    },
    "docs/upgrading.md": {
        "kubectl -n episode-system rollout status deployment/episodes": r"successfully rolled out",
        "kubectl -n episode-system scale deployment/episodes-bridge --replicas=0": r"dry run",
        "kubectl wait --for=condition=Finished episodes --all --all-namespaces --timeout=2h": (
            r"condition met"
        ),
        "helm history episodes --namespace episode-system": r"deployed",
        "helm rollback episodes REVISION --namespace episode-system --wait": r"success",
    },
    "docs/operations.md, docs/payload.md": {
        "kubectl describe episode NAME": r"Kind: +Episode",
        "kubectl get epi NAME -o wide": r"Finished",
        "kubectl describe pod -l episodes.dev/episode=NAME": "",
        "kubectl logs -n episode-system deployment/episodes | grep NAME": "",
        "kubectl get epr -l episodes.dev/episode=NAME -o yaml": r"kind: EpisodeResult",
        "kubectl get epr,configmap --all-namespaces -o yaml > results.yaml": "",
        "episodectl show hello --json | jq .": r'"kind": "turn"',
        "kubectl create secret generic results -n episode-system "
        "--from-literal=AWS_ACCESS_KEY_ID=... --from-literal=AWS_SECRET_ACCESS_KEY=... "
        "--from-literal=AWS_REGION=eu-central-1": r"created",
        "kubectl delete episodes,episoderesults,configmaps,leases -n NAMESPACE -l "
        "episodes.dev/run=coding": r"coding-000008-m0",
        "kubectl delete crd episodes.episodes.dev episoderesults.episodes.dev": r"dry run",
    },
}
"""By page, in its order, run by tests/cluster/test_documented.py; the value is a pattern of what a
command prints."""

UNENDING: Final[Mapping[str, str]] = {
    "episodectl watch --run coding": r"coding-000008-m0",
    "episodectl watch | jq -c 'select(.verdict == \"NoVerdict\") | [.name, .reason]'": r"broken",
    "episodectl ui": r"http://127.0.0.1",
    "kubectl episode ui": r"http://127.0.0.1",
}
"""Run there too, and interrupted once the pattern was printed."""

_BRIDGE = "tests/cluster/test_bridge_cli.py"
_WEIGHTS = "tests/cluster/test_weights_vllm.py::test_an_update_in_mid_turn"
_RULES = "tests/chart/test_rules.py::test_promtool_takes_the_rules"

TESTED: Final[Mapping[str, str]] = {
    "make demo": "tests/cluster/test_documented.py::test_the_demo",
    "PYTHONPATH=examples/bridge trainer-bridge serve -c examples/bridge/custom.yaml": (
        "tests/unit/test_bridge_docs.py::test_the_sink_of_the_example_delivers"
    ),
    "PYTHONPATH=examples/bridge trainer-bridge process -c examples/bridge/custom.yaml --groups 2": (
        "tests/unit/test_bridge_docs.py::test_the_sink_of_the_example_delivers"
    ),
    "trainer-bridge serve -c examples/bridge/atropos.yaml": (
        f"{_BRIDGE}::test_serve_with_the_real_model"
    ),
    "trainer-bridge process -c examples/bridge/humaneval.yaml": (
        f"{_BRIDGE}::test_process_writes_a_dataset_and_goes_on_after_a_kill"
    ),
    "trainer-bridge serve -c bridge.yaml": (
        f"{_BRIDGE}::test_serve_evaluates_and_shows_how_it_stands"
    ),
    "trainer-bridge status -c bridge.yaml": (
        f"{_BRIDGE}::test_serve_evaluates_and_shows_how_it_stands"
    ),
    "trainer-bridge process -c bridge.yaml --groups 500": (
        f"{_BRIDGE}::test_process_writes_a_dataset_and_goes_on_after_a_kill"
    ),
    "trainer-bridge evaluate -c bridge.yaml --label before": f"{_BRIDGE}::test_evaluate",
    "helm template episodes charts/episode-operator -n episode-system --values values.yaml "
    "--show-only templates/monitoring.yaml > monitoring.yaml": _RULES,
    "python3 -c 'import yaml": _RULES,
    "promtool check rules --lint-fatal rules.yaml": _RULES,
    "helm test episodes --namespace episode-system --logs": (
        "tests/cluster/test_chart.py::test_helm_tests_the_release"
    ),
    'curl -X POST "$VLLM/pause?mode=keep"': _WEIGHTS,
    'curl -X POST "$VLLM/collective_rpc" -d \'{"method": "reload_weights", "kwargs": '
    '{"weights_path": "/models/step-17"}}\'': _WEIGHTS,
    'curl -X POST "$VLLM/reset_prefix_cache?reset_running_requests=true"': _WEIGHTS,
    "curl -X POST \"$VLLM/update_weight_version\" -H 'Content-Type: application/json' -d "
    '\'{"new_version": "17"}\'': _WEIGHTS,
    'curl -X POST "$VLLM/resume"': _WEIGHTS,
}
"""Its requests, or its command on another configuration, are those of another test."""

DRY: Final[tuple[str, ...]] = (
    "helm install episodes charts/episode-operator --namespace episode-system --create-namespace "
    "--set operator.image=registry.example.com/episode-operator/operator@sha256:... "
    "--set operator.runnerImage=registry.example.com/episode-operator/runner@sha256:... "
    "--set vllm.enabled=true --set vllm.model=Qwen/Qwen3-4B --set vllm.gpus=1",
    "helm install episodes charts/episode-operator --namespace episode-system --create-namespace "
    "--values values.yaml",
    "helm upgrade episodes charts/episode-operator -n episode-system --values values.yaml "
    "--set 'operator.ignoreNamespaces={staging,staging-*}'",
    "helm install staging charts/episode-operator -n staging --create-namespace "
    "--values staging.yaml --set 'operator.watchNamespaces={staging}' --set crds.install=false",
)
"""Run there as a dry run on the server, in a namespace of the test."""

_COSIGN = (
    'cosign verify --certificate-identity-regexp "$identity" --certificate-oidc-issuer "$issuer"'
)

NOT_RUN: Final[Mapping[str, str]] = {
    "make test": "CI is this command",
    ".venv/bin/python -m pytest tests/unit": "a part of make test",
    "make images REGISTRY=registry.example.com": "the testbed pushes to a registry of its own",
    "make learn": "takes an hour",
    'make learn OPTIONS="--signal hints --seed 1"': "takes half an hour",
    'make learn OPTIONS="--control mask-shift"': "takes an hour",
    "pip install '.[bridge]'": "images/bridge installs this wheel with the extra",
    "pip install .": "the images install this wheel",
    "helm upgrade ... --set objectStore.url=s3://my-bucket/episodes "
    "--set objectStore.secretName=results": "a part of a command",
    "helm upgrade ...": "a part of a command",
    **dict.fromkeys(
        (
            "helm upgrade episodes oci://ghcr.io/OWNER/charts/episode-operator --version 0.2.0 "
            "--namespace episode-system --values values.yaml",
            f"{_COSIGN} ghcr.io/OWNER/episode-operator/operator:0.2.0",
            'cosign verify-attestation --type cyclonedx --certificate-identity-regexp "$identity" '
            '--certificate-oidc-issuer "$issuer" ghcr.io/OWNER/episode-operator/operator:0.2.0',
            f"{_COSIGN} ghcr.io/OWNER/charts/episode-operator:0.2.0",
            "cosign verify-blob --bundle SHA256SUMS.sigstore.json --certificate-identity-regexp "
            '"$identity" --certificate-oidc-issuer "$issuer" SHA256SUMS',
            "sha256sum --check --ignore-missing SHA256SUMS",
        ),
        "nothing is published yet",
    ),
}
"""Not run by a test, and why."""
