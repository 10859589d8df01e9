"""`payclient completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from cyclopts import App, Parameter

from payclient.cli._streams import Streams

EXAMPLES = """
```console
$ payclient completion bash > ~/.local/share/bash-completion/completions/payclient
$ payclient completion zsh > ~/.zfunc/_payclient
$ payclient completion fish > ~/.config/fish/completions/payclient.fish
```
"""


class Shell(StrEnum):
    """A shell that can complete commands."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Shell,
    /,
    *,
    app: Annotated[App, Parameter(parse=False)],
    streams: Annotated[Streams, Parameter(parse=False)],
) -> None:
    """
    Print the script by which a shell completes commands and options; nothing is installed.

    Args:
        shell: Which one.
        app: Whose commands.
        streams: Of the process.
    """
    streams.write(app.generate_completion(prog_name="payclient", shell=shell.value).rstrip("\n"))
