"""The command that shows queues in a browser: serve."""

from __future__ import annotations

import getpass
import secrets
import socket
import webbrowser
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from spark_queue.acting import acting_as
from spark_queue.cli.command import ReaderOption, command
from spark_queue.cli.display import message_of
from spark_queue.cli.scope import Scope
from spark_queue.errors import SetupError

if TYPE_CHECKING:
    from spark_queue.report.following import Followed
    from spark_queue.serve.watching import Opener

#: An address of another machine, which none has, and one's own, by the version of the protocol.
_ELSEWHERE = {4: (socket.AF_INET, "192.0.2.1"), 6: (socket.AF_INET6, "2001:db8::1")}
_LOOPBACK = {4: "127.0.0.1", 6: "::1"}

_Names = Annotated[list[str], Argument(help="The queues: paths, or table names of the catalog.")]


def serve_queues(
    scope: Scope,
    names: _Names,
    host: Annotated[str, Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65_535, help="The port; 0 finds a free one.")] = 8765,
    every: Annotated[float, Option(min=1.0, help="Seconds from one look to the next.")] = 5.0,
    window: Annotated[float, Option(help="Seconds before now that count as now.")] = 3600.0,
    reader: ReaderOption = None,
    allow_host: Annotated[
        list[str] | None, Option(help="Another name by which browsers ask for this machine.")
    ] = None,
    operator: Annotated[
        str | None, Option(help="The name that actions are logged under, unless another is given.")
    ] = None,
    *,
    allow_actions: Annotated[
        bool, Option("--allow-actions", help="Let who has the token pause, cancel and the like.")
    ] = False,
    show: Annotated[bool, Option("--open", help="Show them in a browser at once.")] = False,
) -> None:
    """Show queues in a browser as they change; other machines need a token."""
    require_installed()
    # Asked for when it is to be served: other commands need nothing of it.
    from spark_queue.serve.guard import LOOPBACK, Sessions  # noqa: PLC0415
    from spark_queue.serve.server import listening, run  # noqa: PLC0415
    from spark_queue.serve.site import Site  # noqa: PLC0415
    from spark_queue.serve.watching import Board  # noqa: PLC0415

    board = Board(names, _opener(scope, timedelta(seconds=window)), reader)
    # A queue that does not open is served like the others: its pages say why, until it is mended.
    failed = scope.run_each({seat.name: seat.open for seat in board})
    # Others on this machine's network may look only if they know the token.
    is_private, token = host not in LOOPBACK, secrets.token_urlsafe(24)
    sessions = Sessions(token, _name(operator)) if allow_actions or is_private else None
    site = Site(
        board=board, sessions=sessions, acts=allow_actions, is_private=is_private, every=every
    )
    with listening(host, port) as at:
        url = _url(address_of(host), at.getsockname()[1])
        shown = {"url": url, "token": token if sessions else None, "queues": names}
        wrong = {name: message_of(exc) for name, exc in failed.items()}
        lines = [url, *([f"token: {token}"] if sessions else [])]
        lines += [f"{name} cannot be shown: {why}" for name, why in wrong.items()]
        scope.display.show({**shown, "failed": wrong}, *lines)
        if show:
            webbrowser.open(url)
        # An interrupt is the usual end of it.
        with suppress(KeyboardInterrupt):
            names = [host, socket.gethostname()] if is_private else [host]
            run(site.app({*LOOPBACK, *names, *(allow_host or [])}), at)


serve = command(serve_queues)


def require_installed() -> None:
    """Check that the packages of the server are installed.

    Raises
    ------
    SetupError
        When there is not.
    """
    for name in ("starlette", "uvicorn", "jinja2"):
        if find_spec(name) is None:
            raise SetupError(f"{name} is not installed; pip install 'spark-queue[serve]'")


def _opener(scope: Scope, window: timedelta) -> Opener:
    from spark_queue.cli import views  # noqa: PLC0415 - as above
    from spark_queue.serve.watching import OpenedQueue  # noqa: PLC0415 - as above

    looks: dict[str, Followed] = {}

    def open_queue(name: str, reader: str | None) -> OpenedQueue:
        queue = scope.open_queue(name, reader)[1]
        looks[name] = views.reports(queue, window, looks.get(name))
        return OpenedQueue(look=looks[name], operate=queue)

    return open_queue


def _name(operator: str | None) -> str:
    name = operator or getpass.getuser()
    with acting_as(name):
        return name


def address_of(host: str) -> str:
    """Return the address at which others reach a server that listens at ``host``."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    kind, other = _ELSEWHERE[address.version]
    with socket.socket(kind, socket.SOCK_DGRAM) as route, suppress(OSError):
        # Nothing is sent: the system only says which address it would come from.
        route.connect((other, 9))
        return str(route.getsockname()[0])
    return _LOOPBACK[address.version]


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
