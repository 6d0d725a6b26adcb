"""Routes of the pages, and the check of each session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from spark_queue.acting import acting_as
from spark_queue.errors import (
    CannotUndoError,
    InvalidArgumentError,
    InvalidConfigError,
    QueueNotFoundError,
    ReaderNotFoundError,
    SparkNeededError,
    SparkQueueError,
)
from spark_queue.report.following import Shared, Wanted
from spark_queue.serve import item_pages, pages, queue_pages
from spark_queue.serve.guard import RequestGuard, Session, Sessions
from spark_queue.serve.pages import Page
from spark_queue.serve.verbs import VERBS, Preview, Verb
from spark_queue.serve.watching import FOR_A_CLICK, FOR_A_REFRESH, RANGES, Board, WatchedQueue
from spark_queue.wording import plural

#: Bytes that a form may have, and digits of a number in an address.
_LONGEST_FORM = 64_000
_LONGEST_NUMBER = 18

#: Errors of the request, not of the queue.
_ASKED = (CannotUndoError, InvalidArgumentError, InvalidConfigError, SparkNeededError)
_GONE = (QueueNotFoundError, ReaderNotFoundError)

_SHARED: dict[str, Shared] = {
    "tenants": "tenant",
    "groups": "group",
    "errors": "error",
    "workers": "worker",
}

Form = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The pages of some queues, for the sessions that may see them.

    Parameters
    ----------
    board : Board
        The queues.
    sessions : Sessions, optional
        Who may sign in; ``None`` where nothing can be done but to read.
    acts : bool
        Whether who has signed in may change queues.
    is_private : bool
        Whether who has not may read.
    every : float
        Seconds from one look to the next.
    """

    board: Board
    sessions: Sessions | None = None
    acts: bool = False
    is_private: bool = False
    every: float = 5.0

    def app(self, hosts: Iterable[str]) -> RequestGuard:
        """Return the application, for these names of the machine."""
        reads = [
            Route("/", self._get(self._board)),
            Route("/go", self._get(self._go)),
            Route("/queues/{seat}", self._get(self._queue)),
            Route("/queues/{seat}/find", self._get(self._find)),
            Route("/queues/{seat}/items", self._get(self._items)),
            Route("/queues/{seat}/items/{seq}", self._get(self._item)),
        ]
        acts = [
            Route("/queues/{seat}/act/{verb}", self._get(self._form)),
            Route("/queues/{seat}/act/{verb}", self._post(self._act), methods=["POST"]),
        ]
        signs = [
            Route("/sign-in", self._sign_in_form),
            Route("/sign-in", self._post(self._signed_in), methods=["POST"]),
        ]
        last = [Route("/queues/{seat}/{panel}/{digest}", self._get(self._shared_page))]
        routes = [*_FILES, *reads, *(acts if self.acts else []), *(signs if self.sessions else [])]
        errors = {SparkQueueError: _wrong, OSError: _wrong, HTTPException: _refuse}
        app = Starlette(routes=[*routes, *last], exception_handlers=errors)
        return (
            RequestGuard(app, hosts, self.sessions.is_at)
            if self.sessions
            else RequestGuard(app, hosts)
        )

    def _get(self, show: Callable[[Request], Response]) -> Callable[[Request], Response]:
        """Return a handler of a GET, which asks for a sign-in where one is needed."""

        def answer(request: Request) -> Response:
            if self.is_private and self._session(request) is None:
                return self._ask_in(request)
            return show(request)

        return answer

    def _post(self, act: Callable[[Request, Form], Response]) -> Callable[[Request], object]:
        """Return the answer to a POST, given its fields."""

        async def answer(request: Request) -> Response:
            body = b""
            try:
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > _LONGEST_FORM:
                        raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            except ClientDisconnect:
                # The client is gone.
                return Response(status_code=HTTPStatus.BAD_REQUEST)
            fields = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
            return await run_in_threadpool(act, request, dict(fields))

        return answer

    def _session(self, request: Request) -> Session | None:
        if self.sessions is None:
            return None
        return self.sessions.of(request.cookies.get(self.sessions.cookie), _address(request))

    def _ask_in(self, request: Request) -> Response:
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(f"/sign-in?{pages.query(next=wanted)}", HTTPStatus.SEE_OTHER)

    def _seat(self, request: Request) -> tuple[WatchedQueue, str]:
        """Return the queue of a request, and the start of its addresses."""
        number, has_reader, reader = request.path_params["seat"].partition("@")
        try:
            found = self.board.seat(_number(number), reader if has_reader else None)
        except IndexError:
            raise HTTPException(HTTPStatus.NOT_FOUND) from None
        return found, pages.base_of(found.number, reader if has_reader else None)

    def _page(self, request: Request, page: Page | None) -> Response:
        if page is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        session = self._session(request)
        # The message is shown once, and not to a page that refreshes by itself.
        said = session.take_said() if session and not _is_refresh(request) else ""
        return HTMLResponse(page.html(every=self.every, said=said))

    def _board(self, request: Request) -> Response:
        return self._page(request, queue_pages.board(self.board, _age(request), self._verbs()))

    def _queue(self, request: Request) -> Response:
        seat, base = self._seat(request)
        hours = _number(request.query_params.get("hours", "1"))
        if hours not in RANGES:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        shown = queue_pages.queue(seat, base, _age(request), self._verbs(), hours)
        return self._page(request, shown)

    def _verbs(self) -> tuple[str, ...]:
        return tuple(VERBS) if self.acts else ()

    def _go(self, request: Request) -> Response:
        """Redirect from the name of a queue to its page, or to the items that are asked for."""
        asked = dict(request.query_params)
        number = self.board.number_of(asked.pop("queue", ""))
        if number is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        base = pages.base_of(number, asked.pop("reader", None))
        if "item" in asked:
            to = pages.link_item(base, _number(asked["item"]))
        else:
            to = pages.find(base, **asked) if asked else base
        return RedirectResponse(to, HTTPStatus.SEE_OTHER)

    def _find(self, request: Request) -> Response:
        """Redirect to the item of a number, or else to the items of a key."""
        seat, base = self._seat(request)
        text = request.query_params.get("find", "").strip()
        seq = int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else 0
        is_there = seq > 0 and seat.item(seq, _age(request)).history
        to = pages.link_item(base, seq) if is_there else pages.find(base, key=text)
        return RedirectResponse(to, HTTPStatus.SEE_OTHER)

    def _items(self, request: Request) -> Response:
        seat, base = self._seat(request)
        asked = request.query_params
        names = ("state", "key", "tenant", "group", "text", "where")
        texts = {name: asked.get(name, "").strip() for name in names}
        wanted = Wanted(**texts, after=_number(asked.get("after", "0")))
        shown = item_pages.found_page(seat, base, wanted, _age(request), self._verbs())
        return self._page(request, shown)

    def _item(self, request: Request) -> Response:
        seat, base = self._seat(request)
        seq = _number(request.path_params["seq"])
        page = item_pages.item(seat, base, seq, _age(request), self._verbs())
        return self._page(request, page)

    def _shared_page(self, request: Request) -> Response:
        by = _SHARED.get(request.path_params["panel"])
        if by is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        seat, base = self._seat(request)
        digest = request.path_params["digest"]
        age, verbs = _age(request), self._verbs()
        page = item_pages.shared_page(seat, base, by, digest, age, verbs)
        return self._page(request, page)

    def _sign_in_form(self, request: Request) -> Response:
        return self._asked_in(request.query_params.get("next", "/"))

    def _asked_in(self, wanted: str, error: str = "") -> Response:
        """Return the form that leads to a page once the token is in it."""
        assert self.sessions is not None  # noqa: S101 - else there is no such route
        values = {"title": "Sign in", "next": wanted, "operator": self.sessions.operator}
        status = HTTPStatus.FORBIDDEN if error else HTTPStatus.OK
        return HTMLResponse(Page(template="sign_in.html", values=values).html(error=error), status)

    def _signed_in(self, request: Request, form: Form) -> Response:
        assert self.sessions is not None  # noqa: S101 - as above
        token, operator = form.get("token", ""), form.get("operator", "")
        secret = self.sessions.signed_in(token, operator, _address(request))
        wanted = form.get("next", "/")
        if secret is None:
            return self._asked_in(wanted, "That is not the token.")
        # Nowhere but here.
        is_here = wanted.startswith("/") and not wanted.startswith(("//", "/\\"))
        answer = RedirectResponse(wanted if is_here else "/", HTTPStatus.SEE_OTHER)
        answer.set_cookie(
            self.sessions.cookie,
            secret,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _form(self, request: Request) -> Response:
        session = self._session(request)
        if session is None:
            return self._ask_in(request)
        seat, base = self._seat(request)
        name, _ = _verb(request)
        asked = dict(request.query_params)
        if seqs := request.query_params.getlist("seq"):
            asked["where"] = f"_seq IN ({', '.join(str(_number(seq)) for seq in seqs)})"
        return _asking(session, seat, base, name, asked)

    def _act(self, request: Request, form: Form) -> Response:
        """Preview an action, or do it: if confirmed, and no larger than previewed."""
        session = self._session(request)
        if session is None or not session.owns(form.pop("csrf", "")):
            raise HTTPException(HTTPStatus.FORBIDDEN, "Refused: sign in, and send our own form.")
        seat, base = self._seat(request)
        name, verb = _verb(request)
        confirmed = form.pop("confirmed", None)
        try:
            plan = verb.planned(seat, form)
            grows = plan.is_bounded and confirmed is not None and plan.items > _number(confirmed)
            if confirmed is None or grows or plan.is_stale:
                why = _GROWN if grows else _STALE if confirmed and plan.is_stale else ""
                return _confirmation(session, seat, base, name, plan, form, why)
            with acting_as(session.operator):
                session.said = str(seat.operate(plan.do))
        except _ASKED as exc:
            # The input stays, to be mended.
            return _asking(session, seat, base, name, form, str(exc))
        return RedirectResponse(base, HTTPStatus.SEE_OTHER)


def _asking(
    session: Session,
    seat: WatchedQueue,
    base: str,
    name: str,
    asked: Mapping[str, str],
    error: str = "",
) -> Response:
    """Return the form of an action, filled with earlier input."""
    verb = VERBS[name]
    fields = [
        replace(one, value=asked.get(one.name, one.value))
        for one in verb.fields(seat.open().operate.config)
    ]
    values = {
        "title": f"{name} {seat.name}",
        "what": verb.what,
        "fields": fields,
        **_of_forms(session, seat, base, name),
    }
    status = HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK
    return HTMLResponse(Page(template="form.html", values=values).html(error=error), status)


def _confirmation(
    session: Session,
    seat: WatchedQueue,
    base: str,
    name: str,
    plan: Preview,
    form: Form,
    why: str,
) -> Response:
    """Return the preview of an action; with a reason if it is shown again."""
    known = {field.name for field in VERBS[name].fields(seat.open().operate.config)}
    values = {
        "title": f"{name} {seat.name}",
        "verb": name,
        "plan": plan,
        "count": plural(plan.items, "item"),
        "sample": pages.sample(plan.sample),
        "asked": plan.asked or {key: value for key, value in form.items() if key in known},
        **_of_forms(session, seat, base, name),
    }
    return HTMLResponse(Page(template="confirm.html", values=values).html(error=why))


#: Why a confirmation is asked for again.
_GROWN = "There are more items than were confirmed: look again."
_STALE = "The settings were changed since they were shown: look again."


def _of_forms(session: Session, seat: WatchedQueue, base: str, verb: str) -> dict[str, object]:
    return {
        "operator": session.operator,
        "csrf": session.csrf,
        "action": pages.act(base, verb),
        "back": base,
        "trail": ((seat.name, base),),
    }


def _verb(request: Request) -> tuple[str, Verb]:
    name = request.path_params["verb"]
    if name not in VERBS:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return name, VERBS[name]


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > _LONGEST_NUMBER:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return int(text)


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _is_refresh(request: Request) -> bool:
    return "x-refresh" in request.headers


def _age(request: Request) -> float:
    """Return how old the data of a page may be: less for a refresh than for a link."""
    return FOR_A_REFRESH if _is_refresh(request) else FOR_A_CLICK


def _wrong(_request: Request, exc: Exception) -> Response:
    status = HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(exc, _GONE):
        status = HTTPStatus.NOT_FOUND
    elif isinstance(exc, _ASKED):
        status = HTTPStatus.BAD_REQUEST
    return HTMLResponse(pages.wrong("That did not work", str(exc)).html(), status)


def _refuse(_request: Request, exc: Exception) -> Response:
    assert isinstance(exc, HTTPException)  # noqa: S101 - registered for no other
    said = "There is no such page." if exc.status_code == HTTPStatus.NOT_FOUND else exc.detail
    return HTMLResponse(pages.wrong("That did not work", said).html(), exc.status_code)


def _file(request: Request) -> Response:
    name = request.url.path.removeprefix("/")
    text = pages.style() if name == "style.css" else pages.static(name)
    return Response(text, media_type=pages.FILES[name])


_FILES = [Route(f"/{name}", _file) for name in pages.FILES]
