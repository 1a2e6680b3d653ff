"""A family of small file tasks: "Write the word W to the file /workspace/N.txt."

Training and held-out tasks share no word and no file name, so a policy that passes the held-out
ones has learnt to do the task, not to repeat an answer. Standard library only: the fine-tune, the
examples and the tests all take their tasks from here.

Run as a script it prints tasks as JSON lines: `python tasks.py --split held-out --count 8`.
"""

import argparse
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Literal

Split = Literal["train", "held-out"]

TRAIN_WORDS = """
anchor apple arrow autumn bamboo banana barrel basket beacon bishop blanket bottle branch breeze
bridge bucket butter button cabin camera candle canyon carpet castle cedar cherry circle clover
cobalt coffee copper coral cotton cradle crystal dagger desert diamond dolphin dragon eagle
ember engine falcon feather fiddle finger flannel forest fossil garden garlic ginger glacier
goblin granite guitar hammer harbor helmet herring hollow honey indigo island ivory jacket
jaguar jungle kettle kitten ladder lagoon lantern lemon lizard magnet mango marble meadow melon
mirror monkey mosaic mountain needle nickel oasis ocean olive onion orange orbit orchid otter
paddle panther parrot pebble pencil pepper pigeon pillow piston planet plum pocket pollen portal
prairie prism puzzle quartz quiver rabbit radish rafter raven ribbon river rocket saddle saffron
salmon satin shadow shovel silver socket sparrow spider spiral sponge stable
""".split()  # noqa: SIM905 (a list of words reads best as text)

HELD_OUT_WORDS = """
tulip walnut zebra violet thunder timber velvet willow winter tiger turnip wagon whistle window
yellow zipper summit sunset teapot trumpet tunnel turtle vessel wizard
""".split()  # noqa: SIM905 (a list of words reads best as text)

TRAIN_NAMES = """
alpha answer archive backup basic beta bonus cargo chapter client color config corner daily
delta detail draft entry event field final first folder gamma group header history index input
item journal label layer letter limit list local main memo menu message model name note number
order outline output page panel paper part plan point profile query record region report result
review route sample score
""".split()  # noqa: SIM905 (a list of words reads best as text)

HELD_OUT_NAMES = """
secret section signal source status summary table target ticket title token topic total value
version volume weekly zone
""".split()  # noqa: SIM905 (a list of words reads best as text)

FORMS = (
    "Write the word {word} to the file {path}.",
    "Write the word {word} to {path}.",
    "Create the file {path} with the word {word} in it.",
    "Put the word {word} into the file {path}.",
    "The file {path} must hold the word {word}.",
    "Save {word} in {path}.",
)
"""Ways to ask. The first is the family's own sentence and comes up as often as all others."""


@dataclass(frozen=True, kw_only=True)
class FileTask:
    """One task; it is solved when the file holds `word` and no more, as `command` does."""

    name: str
    word: str
    path: str
    instruction: str
    command: str


def file_task(word: str, name: str, *, form: str = FORMS[0]) -> FileTask:
    """The task to write `word` to `/workspace/<name>.txt`, asked in the words of `form`."""
    path = f"/workspace/{name}.txt"
    return FileTask(
        name=f"{word}-{name}",
        word=word,
        path=path,
        instruction=form.format(word=word, path=path),
        command=f"echo {word} > {path}",
    )


def tasks(split: Split, *, seed: int = 0, paraphrase: bool = True) -> Iterator[FileTask]:
    """Tasks of a split without end, the same for the same seed; words repeat only after all were
    used.

    With `paraphrase` off every task is asked in the family's own sentence.
    """
    words, names = (
        (TRAIN_WORDS, TRAIN_NAMES) if split == "train" else (HELD_OUT_WORDS, HELD_OUT_NAMES)
    )
    chance = random.Random(f"{split} {seed}")
    while True:
        for word in chance.sample(words, len(words)):
            form = chance.choice(FORMS) if paraphrase and chance.random() < 0.5 else FORMS[0]
            yield file_task(word, chance.choice(names), form=form)


def main() -> None:
    """Print tasks as JSON lines."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--split", choices=["train", "held-out"], default="held-out")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--paraphrase", action="store_true", help="ask in several wordings")
    options = parser.parse_args()
    stream = tasks(options.split, seed=options.seed, paraphrase=options.paraphrase)
    for _ in range(options.count):
        print(json.dumps(asdict(next(stream))))


if __name__ == "__main__":
    main()
