"""Forecasts how a large language model runs on a machine, without running it.

    >>> import rigcast
    >>> report = rigcast.forecast({"rig": {"gpu": ["rtx-3060-12gb"]}, "model": {"name": "llama-3.1-8b"}})
    >>> report["decode"]["tokens_per_s"]

Units are seconds, bytes and tokens, unless a key's name states another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import _rigcast

__all__ = ["ForecastError", "forecast"]
__version__: str = _rigcast.version


class ForecastError(ValueError):
    """Why there is no forecast. `str()` is what the program prints behind "rigcast: "."""

    kind: str  #: "bad_input", "does_not_fit" or "machine"
    message: str
    hint: str  #: what to do; may be empty
    where: str  #: "scenario:3:5", line and column, or a key; may be empty
    key: str  #: of the scenario; empty: it is about no single key

    def __init__(self, text: str, kind: str, message: str, hint: str, where: str, key: str) -> None:
        super().__init__(text, kind, message, hint, where, key)  # all of them, so that it can be pickled
        self.kind, self.message, self.hint, self.where, self.key = kind, message, hint, where, key

    def __str__(self) -> str:
        return self.args[0]


def forecast(
    scenario: Mapping[str, Mapping[str, Any]] | str,
    *,
    positions: Sequence[int] = (),
    advice: bool = False,
    by_context: bool = False,
    exact: bool = False,
    reads_files: bool = True,
) -> dict[str, Any]:
    """The report of a scenario: what `rigcast simulate --format json` prints, as a dictionary.

    scenario: tables with the keys of a scenario file, or the text of one (TOML or JSON).
    positions: tokens in the cache at which speed is reported; empty: an even grid.
    advice: simulate alternatives, too, which takes some ten times as long.
    by_context: speed at both ends of contexts up to the model's.
    exact: simulate every token, no sampling.
    reads_files: False, for scenarios that come from others: names are those of the catalogue alone.

    A scenario that does not fit is an answer: `report["fits"]` is False. Raises ForecastError. Other
    threads run meanwhile, and may forecast at the same time.
    """
    text = scenario if isinstance(scenario, str) else json.dumps(scenario, allow_nan=False)
    answer, error = _rigcast.forecast(text, list(positions), advice, by_context, exact, reads_files)
    if error is not None:
        raise ForecastError(*error)
    return json.loads(answer)
