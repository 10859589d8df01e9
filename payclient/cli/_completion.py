"""`payclient completion`: shell completion of commands and options."""

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
    Print a shell completion script; nothing is installed.

    Args:
        shell: The shell to complete for.
        app: The table of commands.
        streams: Streams of the process.
    """
    streams.write(app.generate_completion(prog_name="payclient", shell=shell.value).rstrip("\n"))
