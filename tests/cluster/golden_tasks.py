"""Task folders and rows of our own, one for each thing that such tasks use."""

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random

Files = Mapping[str, str | bytes]

BINARY = Random(7).randbytes(700_000)
"""Does not compress: its archive needs two ConfigMaps."""
CALLER = {"GOLDEN_WORD": "walnut"}
"""What the tasks need of the caller's environment."""


def check(condition: str, *, shell: str = "#!/bin/bash\n") -> str:
    """A test.sh that gives 1 if the condition holds, else 0."""
    return f"{shell}if {condition}; then r=1; else r=0; fi\necho $r > /logs/verifier/reward.txt\n"


def solve(script: str) -> str:
    """A solve.sh."""
    return f"#!/bin/bash\nset -eu\n{script}\n"


def task_toml(
    image: str, environment: str = "", rest: str = "", *, top: str = "", agent: str = ""
) -> str:
    """A task.toml. Nothing needs the network."""
    network = "" if "allow_internet" in environment else 'network_mode = "no-network"\n'
    return (
        f'{top}\n[environment]\ndocker_image = "{image}"\n{network}{environment}\n'
        f"[agent]\ntimeout_sec = 60\n{agent}\n{rest}\n"
    )


def harbor_tasks(image: str) -> dict[str, Files]:
    """The files of each Harbor task, by the task's name."""
    plain = {"instruction.md": "Do it.\n", "task.toml": task_toml(image)}
    step = {"instruction.md": "Go on.\n"}
    return {
        "reward-json": {
            **plain,
            "tests/test.sh": "#!/bin/sh\ntest -f out && reward=1 || reward=0\n"
            'echo "{\\"reward\\": $reward, \\"style\\": 0.5}" > /logs/verifier/reward.json\n',
            "solution/solve.sh": solve("touch out"),
        },
        "crlf": {
            **plain,
            "tests/test.sh": check("test -f out").replace("\n", "\r\n"),
            "solution/solve.sh": solve("touch out").replace("\n", "\r\n"),
        },
        "no-interpreter": {
            **plain,
            "tests/test.sh": check("a=(1 out); [[ -f ${a[1]} ]]", shell=""),
            "solution/solve.sh": "b=(out)\ntouch ${b[0]}\n",
        },
        "old-schema": {
            "instruction.md": "<!-- canary -->\n\nDo it.\n",
            "task.toml": task_toml(
                image,
                'memory = "512M"\nstorage = "1G"\nallow_internet = false\n',
                top='version = "1.0"',
            ),
            "tests/test.sh": check("test -f out"),
            "solution/solve.sh": solve("touch out"),
        },
        "variables": {
            **plain,
            "task.toml": task_toml(
                image,
                'env = {WORD = "${GOLDEN_WORD}", OTHER = "${NOT_SET:-oak}"}\nworkdir = "/srv/work"',
                '[verifier]\nenv = {EXPECTED = "walnut oak", AS_IT_IS = "${GOLDEN_WORD} x"}\n'
                '[solution]\nenv = {SPACE = " "}',
            ),
            "tests/test.sh": check(
                '[ "$(cat out)" = "$EXPECTED" ] && [ "$PWD" = /srv/work ] && '
                "[ \"$AS_IT_IS\" = '${GOLDEN_WORD} x' ]"
            ),
            "solution/solve.sh": solve('echo "$WORD$SPACE$OTHER" > out'),
        },
        "verifier-user": {
            **plain,
            "task.toml": task_toml(image, "", '[verifier]\nuser = "nobody"'),
            "tests/test.sh": check('[ "$(id -un)" = nobody ] && [ -f out ]'),
            "solution/solve.sh": solve("touch out"),
        },
        "agent-user": {
            **plain,
            "task.toml": task_toml(image, agent='user = "nobody"'),
            "tests/test.sh": check('[ "$(stat -c %U /tmp/out)" = nobody ] && [ "$(id -u)" = 0 ]'),
            "solution/solve.sh": solve("touch /tmp/out"),
        },
        "binary-files": {
            **plain,
            "tests/test.sh": check("cmp made /tests/deep/expected.bin"),
            "tests/deep/expected.bin": BINARY,
            "solution/solve.sh": solve('cp "$(dirname "$0")/data.bin" made'),
            "solution/data.bin": BINARY,
        },
        "many-files": {
            **plain,
            "tests/test.sh": check("[ $(ls /tests/many | wc -l) = 300 ] && [ -f out ]"),
            **{f"tests/many/{index:03}": f"{index}\n" for index in range(300)},
            "solution/solve.sh": solve("touch out"),
        },
        "workdir-files": {
            **plain,
            "environment/data/in.txt": "7\n",
            "tests/test.sh": check("[ $(cat out) = 14 ]"),
            "solution/solve.sh": solve("echo $((2 * $(cat data/in.txt))) > out"),
        },
        "healthcheck": {
            **plain,
            "task.toml": task_toml(
                image,
                "[environment.healthcheck]\n"
                'command = "echo x >> /tmp/tries; test $(wc -l < /tmp/tries) -ge 3"\n'
                "interval_sec = 1\n",
            ),
            "tests/test.sh": check("[ $(wc -l < /tmp/tries) = 3 ] && [ -f out ]"),
            "solution/solve.sh": solve("touch out"),
        },
        "artifacts": {
            **plain,
            "task.toml": task_toml(image, top='artifacts = ["/workspace/report"]'),
            "tests/test.sh": check("[ -f report/a ] && [ -f /logs/artifacts/b ]"),
            "solution/solve.sh": solve("mkdir report; touch report/a /logs/artifacts/b"),
        },
        "separate-verifier": {
            **plain,
            "task.toml": task_toml(
                image,
                "",
                '[verifier]\nenvironment_mode = "separate"',
                top='artifacts = ["/workspace/out"]',
            ),
            "tests/test.sh": check(
                "[ $(cat out) = right ] && [ -f /logs/artifacts/b ] && [ ! -e /workspace/other ]"
            ),
            "solution/solve.sh": solve("echo right > out; touch other /logs/artifacts/b"),
        },
        "steps-mean": {
            "task.toml": task_toml(
                image,
                "",
                '[[steps]]\nname = "first"\nmin_reward = 1.0\n'
                '[[steps]]\nname = "second"\nverifier = {env = {N = "2"}}\n'
                "healthcheck = {command = 'test -f ready', interval_sec = 1}\n",
            ),
            "tests/test.sh": check("[ -f one ] && [ ! -e /tests/seen ] && touch /tests/seen"),
            **{f"steps/first/{name}": text for name, text in step.items()},
            "steps/first/solution/solve.sh": solve("touch one"),
            **{f"steps/second/{name}": text for name, text in step.items()},
            "steps/second/workdir/setup.sh": "touch ready\n",
            "steps/second/workdir/given.txt": "x",
            "steps/second/solution/solve.sh": solve("test -f one; cat given.txt > two"),
            "steps/second/tests/test.sh": check("[ -s two ] && [ $N = 2 ] && [ -f ready ]"),
        },
        "steps-final": {
            "task.toml": task_toml(
                image,
                "",
                '[[steps]]\nname = "easy"\n[[steps]]\nname = "hard"\nmin_reward = {style = 2}\n',
                top='multi_step_reward_strategy = "final"',
            ),
            **{f"steps/{name}/instruction.md": "Go on.\n" for name in ("easy", "hard")},
            "steps/easy/tests/test.sh": check("[ -f first ]"),
            "steps/hard/tests/test.sh": "#!/bin/sh\n[ -f second ] && r=1 || r=0\n"
            'echo "{\\"reward\\": $r, \\"style\\": 3}" > /logs/verifier/reward.json\n',
            "steps/easy/solution/solve.sh": solve("touch first"),
            "steps/hard/solution/solve.sh": solve("touch second"),
        },
    }


def endless_terminals_task(image: str) -> Files:
    """A task of Endless Terminals."""
    return {
        "environment/container.def": f"Bootstrap: docker\nFrom: {image}\n\n"
        "%post\n    mkdir -p /home/user\n    echo 3 > /home/user/in.txt\n",
        "environment/task.json": json.dumps({"description": "Square the number."}),
        "tests/helper.py": "PATH = '/home/user/out.txt'\n",
        "tests/test_final_state.py": "from pathlib import Path\n\n"
        "def test_it():\n    assert Path('/home/user/out.txt').read_text() == '9'\n",
        "solution/solve.sh": solve("printf 9 > /home/user/out.txt"),
    }


def opd_rows(image: str) -> list[dict[str, str]]:
    """Rows of AgenticOPD."""
    return [
        {
            "task": f"Write times_{number}(x).",
            "test_code": f"from solution import times_{number} as f\n"
            f"assert f(5) == {number * 5}\nprint('All tests passed')\n",
            "solution": f"def times_{number}(x):\n    return {number} * x\n",
            "image": image,
        }
        for number in (2, 3)
    ]


def write(folder: Path, files: Files) -> Path:
    """A folder with these files."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def write_all(folder: Path, image: str, *, mutilated: bool = False) -> list[Path]:
    """All of them: a folder of task folders, and a file of rows. Mutilated solutions do nothing."""
    tasks = {**harbor_tasks(image), "task_000": endless_terminals_task(image)}
    rows = opd_rows(image)
    if mutilated:
        tasks = {name: _without_solution(files) for name, files in tasks.items()}
        rows = [{**row, "solution": "pass\n"} for row in rows]
    for name, files in tasks.items():
        write(folder / "tasks" / name, files)
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return [folder / "tasks", folder / "rows.jsonl"]


def _without_solution(files: Files) -> Files:
    return {
        name: "#!/bin/sh\ntrue\n" if name.endswith("solve.sh") else content
        for name, content in files.items()
    }
