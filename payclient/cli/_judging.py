"""The options that say how differences are judged."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs
from attrs import frozen
from cyclopts import Group, Parameter

from payclient.errors import ConfigurationError
from payclient.reconcile import Rules, read_rules
from payclient.reconcile._rule_values import read_duration


@Parameter(name="*", group=Group("Judging", sort_key=6))
@frozen(kw_only=True)
class Judging:
    """
    How differences are judged.

    Attributes:
        rules_file: TOML file with tolerances, status words, fees, accepted differences and more.
        time_zone: What the service's expiry times mean, such as `Asia/Jakarta`; goes before the rules file.
        grace: How young a row may be and still differ, such as `90m`, `24h` or `1d 12h`; goes before the rules file.
    """

    rules_file: Annotated[Path | None, Parameter(name="--rules")] = None
    time_zone: str | None = None
    grace: str | None = None

    def rules(self) -> Rules:
        """
        Return what was decided.

        Raises:
            ConfigurationError: When an option or a line of the file cannot be used.
        """
        rules = Rules() if self.rules_file is None else read_rules(self.rules_file)
        if self.time_zone is not None:
            rules = attrs.evolve(rules, time_zone=_zone(self.time_zone))
        return rules if self.grace is None else attrs.evolve(rules, grace=_duration(self.grace))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as error:
        message = f"--time-zone: there is no time zone {name!r}; an example is Asia/Jakarta"
        raise ConfigurationError(message) from error


def _duration(text: str) -> timedelta:
    duration = read_duration(text)
    if duration is None:
        message = f"--grace must be like 90m, 24h or 1d 12h, got {text!r}"
        raise ConfigurationError(message)
    return duration
