"""Python runs of verifiers: isolated from what an agent may have left.

`-I` keeps PYTHON* variables, the user's site folder and the working directory out. `-S` keeps the
interpreter from running code of `.pth` files and of sitecustomize; the preamble adds the site
packages, and the folders that `.pth` files name, as plain folders. The workdir comes at the very
end of the module path, so that tests find the solution, but nothing of the agent's can stand in
for a module of the standard library or of the test run, nor for one that the standard library
looks for in vain, such as `msvcrt` here.
"""

from episode_operator.api.decisions import Happening
from episode_operator.sandbox.errors import CommandNotStarted
from episode_operator.sandbox.results import ExecResult
from episode_operator.verifier.base import Context, NoVerdictError, run

_INTERPRETERS = ("python3", "python")
_PREAMBLE = """\
import importlib.util, os, site, sys
workdir, *sys.argv = sys.argv[1:]
prefix = os.path.dirname(os.path.dirname(os.path.abspath(sys.executable)))
venv = os.path.join(prefix, "pyvenv.cfg")
alone = os.path.exists(venv)
folders = site.getsitepackages([prefix]) if alone else []
if not alone or "include-system-site-packages = true" in open(venv).read().lower():
    folders += site.getsitepackages([sys.base_prefix, sys.base_exec_prefix])
for folder in filter(os.path.isdir, folders):
    sys.path.append(folder)
    for name in sorted(os.listdir(folder)):
        if name.endswith(".pth"):
            for line in open(os.path.join(folder, name), errors="replace"):
                path = os.path.join(folder, line.strip())
                if line.strip() and os.path.isdir(path):
                    sys.path.append(path)
site.setquit()
for name in sorted({*sys.stdlib_module_names, "org"}):
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        sys.modules[name] = None
sys.path.append(workdir)
"""


async def run_isolated(
    context: Context,
    source: str,
    *arguments: str,
    env: dict[str, str] | None = None,
    stdin: bytes = b"",
) -> ExecResult:
    """Run a program with the image's Python, `sys.argv` being the arguments.

    Raises:
        NoVerdictError: there is no Python, or as `run` does.
        SandboxError: as `run` does.
    """
    missing = []
    for interpreter in _INTERPRETERS:
        command = [
            interpreter,
            "-I",
            "-S",
            "-B",
            "-c",
            _PREAMBLE + source,
            context.workdir,
            *arguments,
        ]
        try:
            return await run(context, command, env=env, stdin=stdin)
        except CommandNotStarted as error:
            missing.append(error.message)
    raise NoVerdictError(
        Happening.PYTHON_MISSING, f"the image has no Python on its PATH: {'; '.join(missing)}"
    )
