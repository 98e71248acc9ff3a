"""Commands: parameters become options by the table; those in a dataclass are shared by commands."""

from __future__ import annotations

import dataclasses
import glob
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from graphrf.cli.options.messages import EXIT_CODES, plain_messages
from graphrf.cli.options.table import OPTIONS, Option


class Command(TyperCommand):
    """A command whose help lists its parameters by panels, and flags without a value's type."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain_flags(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[Any]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                panels.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(
                    record
                )
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(TyperGroup):
    """The program, whose help shows the whole first sentence of each command."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain_flags(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, str(command.help).partition("\n")[0])
                    for name, command in self.commands.items()
                ]
            )


def _plain_flags(params: list[Any]) -> list[Any]:
    completion = ("install_completion", "show_completion")
    for param in params:
        if getattr(param, "is_flag", False) or param.name in completion:
            param.metavar = ""
    return params


def add_command(app: typer.Typer, run: Callable[..., None], examples: Sequence[str]) -> None:
    """Register `run` as a command of its name; errors about bad input become one line.

    The table of options has the help of each parameter. Parameters of `run` that are dataclasses
    are replaced by their fields.
    """
    command_name = run.__name__
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    names: dict[str, str] = {}

    def add(name: str, default: Any, hint: Any) -> None:
        option = OPTIONS.get(f"{command_name}.{name}") or OPTIONS[name]
        info = _info(name, option)
        shown = _shown(name, option)
        for known in (name, *option.python.split()):
            names.setdefault(known, shown)
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[hint, info],
            )
        )

    hints = get_type_hints(run)
    for parameter in inspect.signature(run).parameters.values():
        hint = hints[parameter.name]
        if dataclasses.is_dataclass(hint):
            groups[parameter.name] = hint
            fields = get_type_hints(hint)
            for field in dataclasses.fields(hint):
                add(field.name, field.default, fields[field.name])
        else:
            add(parameter.name, parameter.default, hint)

    def command(**values: Any) -> None:
        with plain_messages({**NAMES, **names}):
            gathered = {
                name: group(
                    **{field.name: values.pop(field.name) for field in dataclasses.fields(group)}
                )
                for name, group in groups.items()
            }
            run(**values, **gathered)

    command.__name__ = command_name
    command.__doc__ = run.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    shown = "\b\n" + "\n".join(f"  $ {example}" for example in examples)
    app.command(command_name, cls=Command, epilog=f"Examples\n\n{shown}\n\n{EXIT_CODES}")(command)


def _shown(name: str, option: Option, value: Any = None) -> str:
    """The parameter as messages name it; the second of two flags for the value False."""
    if option.panel == "Arguments":
        return (option.metavar or name).strip("[]")
    flag, _, opposite = option.flags.partition(" ")[0].partition("/")
    return opposite if value is False and opposite else flag or f"--{name.replace('_', '-')}"


def _info(name: str, option: Option) -> Any:
    """The option or argument of typer."""
    if option.panel == "Arguments":
        complete = completed_graphs if name == "graph" else None
        return typer.Argument(
            metavar=option.metavar,
            help=option.help,
            show_default=False,
            autocompletion=complete,
            rich_help_panel="Arguments",
        )
    words = option.words or (
        option.metavar.split("|") if option.metavar and "|" in option.metavar else ()
    )
    return typer.Option(
        *option.flags.split(),
        metavar=option.metavar,
        help=option.help,
        hidden=not option.help,
        rich_help_panel=option.panel,
        autocompletion=_completed_words(words) if words else None,
    )


# Options of any command by the library's names of the same arguments, for messages that refer to
# other commands.
NAMES = {
    known: _shown(name, option)
    for name, option in OPTIONS.items()
    if "." not in name
    for known in (name, *option.python.split())
}


def _completed_words(words: Sequence[str]) -> Callable[[str], list[str]]:
    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


def completed_graphs(incomplete: str) -> list[str]:
    """Files and folders, and the names of data sets, that begin as typed."""
    from graphrf.datasets.sets import names

    found = sorted(glob.glob(f"{glob.escape(incomplete)}*"))
    files = [f"{path}/" if os.path.isdir(path) else path for path in found]
    return files + [name for name in names() if name.startswith(incomplete)]


# -- options that do not go together ---------------------------------------------------------------


def given_options(*groups: Any) -> dict[str, Any]:
    """The options of dataclasses, with their values."""
    return {
        _shown(name, OPTIONS[name], value): value
        for group in groups
        for name, value in dataclasses.asdict(group).items()
    }


def require_known(option: str, value: str, known: Sequence[str], also: str = "") -> None:
    """ValueError, with the words most like it, for a `value` that is not among the `known`."""
    if value not in known:
        from graphrf._base.checks import did_you_mean

        like = did_you_mean(value, known)
        raise ValueError(
            f"`{option}` must be one of {', '.join(known)}{also}, got {value!r}"
            + (f"; {like}" if like else "")
        )


def refuse_unused(given: Mapping[str, Any], used: Sequence[str], chosen: str) -> None:
    """ValueError for options that `chosen` does not use, by flag with values (None: not given)."""
    unused = [option for option, value in given.items() if value is not None and option not in used]
    if unused:
        names = ", ".join(f"`{option}`" for option in unused)
        takes = ", ".join(f"`{option}`" for option in given if option in used)
        raise ValueError(
            f"{names} cannot be used with {chosen}" + (f", which takes {takes}" if takes else "")
        )


def refuse_without(given: Mapping[str, Any], needed: str) -> None:
    """ValueError for options without `needed`, by flag with their values (None: not given)."""
    options = [f"`{option}`" for option, value in given.items() if value is not None]
    if options:
        raise ValueError(
            f"{', '.join(options)} {'needs' if len(options) == 1 else 'need'} {needed}"
        )
