"""A trainer that looks and does not learn: it takes batches from an Atropos server and prints them.

    python examples/tutorial/trainer.py --atropos http://localhost:8000 --steps 2

For each row it tells the reward, the advantage in its group (as in GRPO) and how many tokens the
policy sampled. Standard library only; examples/trainer is one that learns.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from statistics import fmean, pstdev
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

MASKED: Final = -100
_PAUSE_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 600.0


def main() -> None:
    """Register, then take so many batches."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--atropos", default="http://localhost:8000", help="base URL")
    parser.add_argument("--steps", type=int, default=2, help="batches to take")
    parser.add_argument("--batch-size", type=int, default=8, help="rows; a multiple of group_size")
    parser.add_argument("--max-token-length", type=int, default=4096, help="rows must be shorter")
    options = parser.parse_args()
    registration = {
        "wandb_group": "tutorial",
        "wandb_project": "tutorial",
        "batch_size": options.batch_size,
        "max_token_len": options.max_token_length,
        "checkpoint_dir": "",
        "save_checkpoint_interval": 0,
        "starting_step": 0,
        "num_steps": options.steps,
    }
    asked(f"{options.atropos}/register", registration)
    for step in range(options.steps):
        for line in described(step, batch(options.atropos)):
            print(line, flush=True)


def batch(url: str) -> list[dict[str, Any]]:
    """The groups of the next batch, once there are enough."""
    while not (groups := asked(f"{url}/batch").get("batch")):
        time.sleep(_PAUSE_SECONDS)
    return list(groups)


def described(step: int, groups: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each group and each of its rows."""
    for group in groups:
        scores = group["scores"]
        yield f"step {step}: a group of {len(scores)}, mean reward {fmean(scores):.3f}"
        rows = zip(scores, advantages(scores), group["masks"], strict=True)
        for score, advantage, mask in rows:
            sampled = sum(id_ != MASKED for id_ in mask)
            told = f"advantage {advantage:+.2f}, sampled {sampled} of {len(mask)}"
            yield f"  reward {score:g}, {told}"


def advantages(scores: list[float]) -> list[float]:
    """(score - mean) / standard deviation; all 0 where the scores are equal."""
    mean, deviation = fmean(scores), pstdev(scores)
    return [(score - mean) / deviation if deviation else 0.0 for score in scores]


def asked(url: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the server answers, however long it is away; a body is posted."""
    data = None if body is None else json.dumps(body).encode()
    while True:
        request = Request(url, data, {"Content-Type": "application/json"})
        try:
            with urlopen(request, timeout=_ANSWER_SECONDS) as response:
                answer: dict[str, Any] = json.load(response)
                return answer
        except HTTPError:
            raise
        except (OSError, HTTPException) as error:
            print(f"waiting for {url}: {error}", flush=True)
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    main()
