"""``vlmguard rule``: what a rule means. One rule, a family of rules, or all of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from vlmguard.cli import messages


def add(app: typer.Typer) -> None:
    """Put the command into the program."""
    app.command("rule")(rule)


def rule(
    which: Annotated[
        str,
        typer.Argument(
            metavar="[CODE|NAME]",
            help="a code (VG101), a name (reentrant-ddp) or the beginning of codes (VG1)",
        ),
    ] = "",
    all_: Annotated[bool, typer.Option("--all", help="print every page instead of a list")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON for another program")] = False,
) -> None:
    """Explain a rule. Without a rule, list all rules.

    Examples: `vlmguard rule VG101`, `vlmguard rule VG1`

    Exit status: 0, it was printed; 2, there is no such rule.
    """
    from vlmguard import registry

    rules = dict(sorted(registry.get().rules.items()))
    found = find(rules, which) if which else rules
    if not found:
        from vlmguard.core.settings import nearest

        names = [*rules, *(str(each.NAME) for each in rules.values())]
        word = which.upper() if which.upper().startswith("VG") else which.lower()
        meant = nearest(word, names) or " (`vlmguard rule` lists all of them)"
        messages.fail(f"no rule {which!r}{meant}")
    if as_json:
        messages.show_json([_data(each) for each in found.values()])
    elif all_ or (which and len(found) == 1):
        typer.echo("\n\n".join(_page(each) for each in found.values()))
    else:
        rows = [(code, each.NAME, each.DEFAULT, title(each)) for code, each in found.items()]
        head = ("code", "name", "default", "what it is about")
        typer.echo("\n".join(messages.columns([head, *rows], indent=0)))


def find(rules: Mapping[str, Any], which: str) -> dict[str, Any]:
    """The rule of this code or name; else all whose code begins so."""
    code = which.strip().upper()
    if code in rules:
        return {code: rules[code]}
    named = {c: rule for c, rule in rules.items() if which.strip().lower() == rule.NAME}
    return named or {c: rule for c, rule in rules.items() if code and c.startswith(code)}


def title(rule: Any) -> str:
    """The first line of a rule's docstring."""
    return inspect.cleandoc(rule.__doc__ or "").partition("\n")[0]


def _body(rule: Any) -> str:
    return inspect.cleandoc(rule.__doc__ or "").partition("\n")[2].strip("\n")


def _page(rule: Any) -> str:
    head = typer.style(f"{rule.CODE} {rule.NAME}", bold=True)
    return f"{head}: {title(rule)}\nDefault policy: {rule.DEFAULT}\n\n{_body(rule)}"


def _data(rule: Any) -> dict[str, str]:
    return {
        "code": rule.CODE,
        "name": rule.NAME,
        "default": rule.DEFAULT,
        "title": title(rule),
        "page": _body(rule),
    }
