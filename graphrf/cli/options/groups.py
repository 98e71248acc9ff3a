"""Commands whose parameters come in groups: each field of a dataclass becomes an option."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from graphrf.cli.options.completion import of_words
from graphrf.cli.options.messages import EXIT_CODES, plain_messages


class Command(TyperCommand):
    """A command whose flags are shown without the type of their values, which nobody types."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain_flags(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options under the titles of their panels."""
        panels: dict[str, list[Any]] = {}
        for param in self.get_params(ctx):
            title = getattr(param, "rich_help_panel", None)
            if title is None:
                title = "Arguments" if param.param_type_name == "argument" else "Options"
            record = param.get_help_record(ctx)
            if record is not None:
                panels.setdefault(title, []).append(record)
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(TyperGroup):
    """The same of the program's own options."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain_flags(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands, each with its whole first sentence."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, str(command.help).partition("\n")[0]) for name, command in self.commands.items()]
            )


def _plain_flags(params: list[Any]) -> list[Any]:
    for param in params:
        if getattr(param, "is_flag", False) or param.name in ("install_completion", "show_completion"):
            param.metavar = ""
    return params


def add_command(
    app: typer.Typer,
    run: Callable[..., None],
    *,
    examples: Sequence[str],
    name: str | None = None,
    places: Mapping[str, str] | None = None,
) -> None:
    """Register `run` as a command; errors about bad input become one line.

    Parameters of `run` that are dataclasses are replaced by their fields, so that commands share options. `places`
    says how messages name arguments in this command.
    """
    hints = get_type_hints(run, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(run).parameters.values():
        hint = hints[parameter.name]
        if dataclasses.is_dataclass(hint):
            groups[parameter.name] = hint
            own = get_type_hints(hint, include_extras=True)
            parameters += [_keyword(field.name, field.default, own) for field in dataclasses.fields(hint)]
        else:
            parameters.append(_keyword(parameter.name, parameter.default, hints))

    def command(**values: Any) -> None:
        with plain_messages(places):
            gathered = {
                name: group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
                for name, group in groups.items()
            }
            run(**values, **gathered)

    command.__name__ = name or run.__name__
    command.__doc__ = run.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    shown = "\b\n" + "\n".join(f"  $ {example}" for example in examples)
    app.command(command.__name__, cls=Command, epilog=f"Examples\n\n{shown}\n\n{EXIT_CODES}")(command)


def _keyword(name: str, default: Any, hints: Mapping[str, Any]) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is dataclasses.MISSING else default
    for option in get_args(hints[name])[1:]:
        if isinstance(option, OptionInfo) and "|" in (option.metavar or ""):
            option.autocompletion = of_words(tuple(str(option.metavar).split("|")))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
