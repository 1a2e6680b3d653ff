"""Easy problems: one loop, one rule."""

from trainer_bridge.sources.builtin.coding.problem import Problem

PROBLEMS = (
    Problem(
        name="missing-tickets",
        difficulty="easy",
        task="""\
A box should hold every ticket number from its lowest to its highest. Write a Python function
`missing_tickets(numbers)` that takes a list of whole numbers, in any order and perhaps with
repeats, and returns the numbers that are absent from that range, in ascending order. An empty
list has no range, so nothing is missing from it. The list that was passed must not be changed.""",
        tests="""\
from solution import missing_tickets

assert missing_tickets([7, 3, 4]) == [5, 6]
assert missing_tickets([1, 2, 3]) == []
assert missing_tickets([-2, 2, -2]) == [-1, 0, 1]
assert missing_tickets([9]) == []
assert missing_tickets([]) == []
box = [30, 10, 20]
assert len(missing_tickets(box)) == 18
assert box == [30, 10, 20]
""",
        solution="""\
def missing_tickets(numbers):
    held = set(numbers)
    return [n for n in range(min(held), max(held)) if n not in held] if held else []
""",
    ),
    Problem(
        name="kettle-timer",
        difficulty="easy",
        task="""\
Write a Python function `countdown(seconds)` for the display of a kettle. It takes a whole number
of seconds and returns text: below one minute `42s`, below one hour `3m05s`, from one hour on
`1h00m09s`. Minutes and seconds after a larger unit have two digits. A negative number raises
ValueError.""",
        tests="""\
from solution import countdown

assert countdown(0) == "0s"
assert countdown(42) == "42s"
assert countdown(60) == "1m00s"
assert countdown(185) == "3m05s"
assert countdown(3599) == "59m59s"
assert countdown(3609) == "1h00m09s"
assert countdown(90061) == "25h01m01s"
try:
    countdown(-1)
except ValueError:
    pass
else:
    raise AssertionError("a negative number of seconds was taken")
""",
        solution="""\
def countdown(seconds):
    if seconds < 0:
        raise ValueError("seconds must not be negative")
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m{seconds:02}s"
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"
""",
    ),
    Problem(
        name="first-past-the-post",
        difficulty="easy",
        task="""\
Write a Python function `winner(ballots)` that takes a list of names and returns the name that is
on the most ballots. Where several names are equally frequent, the one that reached that number
first wins. Without ballots the answer is None.""",
        tests="""\
from solution import winner

assert winner(["ann", "bo", "bo"]) == "bo"
assert winner(["ann", "bo"]) == "ann"
assert winner(["ann", "bo", "bo", "ann"]) == "bo"
assert winner(["cy", "bo", "ann", "ann", "bo", "cy"]) == "ann"
assert winner(["solo"]) == "solo"
assert winner([]) is None
""",
        solution="""\
def winner(ballots):
    counts, best = {}, None
    for name in ballots:
        counts[name] = counts.get(name, 0) + 1
        if best is None or counts[name] > counts[best]:
            best = name
    return best
""",
    ),
)
