"""Variables whose value comes from the caller's environment: `${NAME}` and `${NAME:-default}`."""

import re
from collections.abc import Mapping

from trainer_bridge.sources.errors import UnusableError

_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}")


def resolved(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with their values; only a value that is a template as a whole is looked up.

    Raises:
        UnusableError: a name without default is not defined.
    """
    return {key: _resolved(key, value, environ) for key, value in variables.items()}


def _resolved(key: str, value: str, environ: Mapping[str, str]) -> str:
    template = _TEMPLATE.fullmatch(value)
    if template is None:
        return value
    name, default = template.groups()
    found = environ.get(name, default)
    if found is None:
        raise UnusableError(f"{key} needs the variable {name}, which is not set here")
    return found
