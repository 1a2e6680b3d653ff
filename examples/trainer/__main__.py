"""`python -m examples.trainer`."""

import os
import sys

# Threads that wait for each other would spin, and take the CPU from the model server beside them.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # read when torch is loaded

from examples.trainer.errors import TrainerError
from examples.trainer.options import parse
from examples.trainer.trainer import train

if __name__ == "__main__":
    try:
        train(parse())
    except TrainerError as error:
        sys.exit(f"trainer: {error}")
