"""`payclient completion`: shell completion of commands and options."""

from __future__ import annotations

from typing import Annotated, Literal

from cyclopts import App, Parameter

from payclient.cli._streams import Streams

EXAMPLES = """
```console
$ payclient completion bash > ~/.local/share/bash-completion/completions/payclient
$ payclient completion zsh > ~/.zfunc/_payclient
$ payclient completion fish > ~/.config/fish/completions/payclient.fish
```
"""


def completion(
    shell: Literal["bash", "zsh", "fish"],
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
    streams.write(app.generate_completion(prog_name="payclient", shell=shell).rstrip("\n"))
