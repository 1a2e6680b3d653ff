"""How `episodectl show` looks on a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from episode_operator.results.heat import ADVANTAGES, LOGPROBS, Scale, heat
from episode_operator.results.rollout import Token, Turn
from episodectl.rows import VERDICT_STYLES

INSERTED, UNSCORED = Style(dim=True), Style(underline=True)
_SHADES = {
    Scale.LOGPROB: ("#4d3800", "#7a5900", "#b38200", "#e6a700"),
    Scale.GAIN: ("#003d1a", "#00662b", "#00993f", "#00cc55"),
    Scale.LOSS: ("#4d0f0f", "#801a1a", "#b32424", "#e62e2e"),
}


def style(token: Token, *, taught: bool) -> Style:
    """Colour of a token: by its advantage where the Episode has a teacher, else by its logprob."""
    found = heat(token, taught=taught)
    if found.scale is Scale.INSERTED:
        return INSERTED
    return UNSCORED if found.scale is Scale.UNSCORED else _shade(found.scale, found.level)


def _shade(scale: Scale, level: int) -> Style:
    if level == 0:
        return Style()
    colours = _SHADES[scale]
    bright = level > len(colours) // 2
    return Style(color="#000000" if bright else "#ffffff", bgcolor=colours[level - 1])


def legend(*, taught: bool) -> Text:
    """What the colours mean."""
    text = Text().append("inserted", style=INSERTED).append("  ")
    if not taught:
        text.append("sampled, logprob below", style=Style())
        for level, limit in enumerate(LOGPROBS, 1):
            text.append(" ").append(f" {limit:g} ", style=_shade(Scale.LOGPROB, level))
        return text
    text.append("not scored", style=UNSCORED).append("  teacher minus student")
    for level, limit in reversed(list(enumerate(ADVANTAGES, 1))):
        text.append(" ").append(f" -{limit:g} ", style=_shade(Scale.LOSS, level))
    for level, limit in enumerate(ADVANTAGES, 1):
        text.append(" ").append(f" +{limit:g} ", style=_shade(Scale.GAIN, level))
    return text


def visible(text: str) -> str:
    """The text with what a terminal would act on spelled out; line ends stay, with a mark."""
    parts = (
        character
        if character.isprintable()
        else "↵\n"
        if character == "\n"
        else character.encode("unicode_escape").decode()
        for character in text
    )
    return "".join(parts)


def print_head(console: Console, head: Mapping[str, Any]) -> None:
    """The Episode as a whole."""
    verdict, reward = head["verdict"], head.get("reward")
    title = Text(f"{head['episode']['name']}  ", style="bold")
    title.append(verdict, style=VERDICT_STYLES[verdict])
    title.append("" if reward is None else f"  reward {reward:g}")
    console.print(title.append(f"  {head['reason']}"), soft_wrap=True)
    lines = {
        "message": visible(head.get("message", "")).replace("↵\n", " "),
        "components": _numbers(head["rewardComponents"]),
        "result": f"{head['result']} in namespace {head['namespace']}",
        "model": _model(head),
        "weights": ", ".join(
            f"{version or 'unnamed'}: {count} tokens"
            for version, count in head["weightVersions"].items()
        ),
        "agent": " ".join(filter(None, (head["agentKind"], head.get("agentEnd")))),
        "counts": _numbers(head["counts"]),
        "seconds": _numbers(
            {name.removesuffix("Seconds"): value for name, value in head["timings"].items()}
        ),
        "distillation": _distillation(head["distillation"]),
    }
    for name, value in lines.items():
        if value:
            console.print(Text(f"{name:<13}", style="dim").append(value, style="not dim"))


def _numbers(values: Mapping[str, Any]) -> str:
    """Numbers by name; those of a nested mapping in brackets."""
    parts = (
        f"{name} ({_numbers(value)})" if isinstance(value, Mapping) else f"{name} {value:g}"
        for name, value in values.items()
        if value != {}
    )
    return ", ".join(parts)


def _model(head: Mapping[str, Any]) -> str:
    model = head.get("model")
    if model is None:
        return ""
    return f"{model['name']}, {model['logprobsMode']} logprobs, {_numbers(_given(model))}"


def _given(model: Mapping[str, Any]) -> dict[str, float]:
    sampling: Mapping[str, Any] = model["sampling"]
    return {name: value for name, value in sampling.items() if isinstance(value, int | float)}


def _distillation(said: Mapping[str, Any] | None) -> str:
    if said is None:
        return ""
    message = visible(said.get("message", "")).replace("↵\n", " ")
    parts = (said["state"], _numbers(said["outcomes"]), f"positions {said['positions']}", message)
    return ", ".join(part for part in parts if part)


def print_output(console: Console, output: str) -> None:
    """What the verifier printed, if it printed anything."""
    if output:
        console.print(Rule("verifier's output", align="left", style="dim"))
        console.print(Text(visible(output.rstrip("\n")).replace("↵\n", "\n")), soft_wrap=True)


def print_turn(console: Console, turn: Turn, *, taught: bool, table: bool) -> None:
    """One turn: what is said of it, and its tokens as text or as a table."""
    sampled = [token for token in turn.tokens if token.sampled]
    title = [f"turn {turn.number}", f"{len(sampled)} of {len(turn.tokens)} tokens sampled"]
    scored = [token.advantage for token in sampled if token.advantage is not None]
    if scored:
        title.append(f"mean A_t {sum(scored) / len(scored):+.3f}")
    if turn.outcome is not None:
        title.append(turn.outcome)
    console.print(Rule(" · ".join(title), align="left", style="dim"))
    for name, said in (("hint", turn.hint), ("message", turn.message)):
        if said:
            console.print(Text(f"{name}: ", style="bold").append(visible(said), style="not bold"))
    console.print(_table(turn, taught=taught) if table else _text(turn, taught=taught))


def _text(turn: Turn, *, taught: bool) -> Text:
    text = Text()
    for token in turn.tokens:
        shown = f"{token.id} " if token.text is None else visible(token.text)
        text.append(shown, style=style(token, taught=taught))
    return text


def _table(turn: Turn, *, taught: bool) -> Table:
    table = Table("position", "id", "text", "logprob", "teacher", "A_t", "version", box=None)
    for token in turn.tokens:
        text = "" if token.text is None else visible(token.text).replace("↵\n", "↵")
        table.add_row(
            str(token.position),
            str(token.id),
            Text(text, style=style(token, taught=taught)),
            _value(token.logprob, ".4f"),
            _value(token.teacher, ".4f"),
            _value(token.advantage, "+.4f"),
            Text(visible(token.version or "")),
        )
    return table


def _value(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
