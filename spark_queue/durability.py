"""Words of durability, strongest first."""

from __future__ import annotations

from typing import Literal

from spark_queue.checks import Refusal, require_choice
from spark_queue.errors import InvalidArgumentError

#: What a put survives once its call returns: a power cut (``disk``), the end of this process
#: (``process``), or as much as a step of its queue does (``commit``). Or the call returns at once,
#: and the put survives the process within an ``interval``, or at the next group (``memory``).
Durability = Literal["disk", "process", "commit", "interval", "memory"]

#: What a step of a queue survives; in memory not even the end of the process.
StepDurability = Literal["disk", "process"]

_STEP_WORDS = ("disk", "process")
#: Words of a put whose call returns before its group is committed.
AT_ONCE = ("interval", "memory")
_WORDS = (*_STEP_WORDS, "commit", *AT_ONCE)


def require_step_durability(
    value: object, what: str = "durability", error: Refusal = InvalidArgumentError
) -> None:
    """Raise where a value is no durability of a step."""
    if isinstance(value, str) and value in _WORDS and value not in _STEP_WORDS:
        raise error(
            f"{what} is {value!r}, which a single put of a journaled queue may ask for: "
            "of a step, say 'disk' or 'process'"
        )
    require_choice(what, value, _STEP_WORDS, error)


def require_put_durability(value: object, error: Refusal = InvalidArgumentError) -> None:
    """Raise unless a value names the durability of a put."""
    require_choice("durability", value, _WORDS, error)


def require_kept(value: object, kept: str) -> None:
    """Raise where a put needs more durability than its queue has.

    Parameters
    ----------
    value : object
        What was asked for.
    kept : str
        What a commit survives: ``disk``, ``process``, or ``memory`` for nothing.

    Raises
    ------
    InvalidArgumentError
        When it is no word of durability, or asks for more than a commit survives.
    """
    require_put_durability(value)
    if value in _STEP_WORDS and kept not in _STEP_WORDS[: _STEP_WORDS.index(value) + 1]:
        survives = "the end of the process alone" if kept == "process" else "nothing"
        raise InvalidArgumentError(
            f"durability is {value!r}, and a step of this queue survives {survives}: open the "
            f"queue on a disk with durability={value!r}, or say 'commit'"
        )
