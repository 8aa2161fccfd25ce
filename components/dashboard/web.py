"""The HTTP side: the page's files, its event stream, and what browsers ask, put into the component's inbox."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from components.dashboard.assets import Asset, read_assets
from components.dashboard.form import FormError, read_form
from components.dashboard.gate import HEADERS, Gate
from components.dashboard.items import Asked, AskError, Joined, Left, ScalingAsked, SeriesAsked, TimelineAsked
from components.dashboard.stream import Streams

BODY_BYTES_MAX: Final = 8 * 1024
BODY_WITHIN_S: Final = 5.0
ANSWER_WITHIN_S: Final = 5.0
LARGEST_MS: Final = 2**53
MS_DIGITS_MAX: Final = len(str(LARGEST_MS))
KEY_LENGTH_MAX: Final = 256

Post = Callable[[object], None]


class Page:
    """What the routes do. `post` puts an item into the component's inbox."""

    def __init__(self, post: Post) -> None:
        self.streams = Streams()
        self._post = post

    async def events(self, _request: Request) -> Response:
        """The event stream: a whole picture first, then what changes."""
        stream = self.streams.open()
        if stream is None:
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many browsers watch already; close one")

        async def frames() -> AsyncIterator[bytes]:
            self._post(Joined(stream))
            try:
                async for frame in stream.frames():
                    yield frame
            finally:
                self.streams.closed(stream)
                self._post(Left(stream))

        return StreamingResponse(frames(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    async def series(self, request: Request) -> Response:
        """Measures and limits of one workload, for the chart."""
        query = request.query_params
        after = query.get("after", "0")
        is_number = after.isascii() and after.isdigit() and len(after) <= MS_DIGITS_MAX
        if not is_number or int(after) > LARGEST_MS:
            return _refused(HTTPStatus.BAD_REQUEST, "after: UTC epoch ms")
        return await self._ask(SeriesAsked(query.get("node", ""), query.get("workload", ""), int(after)))

    async def timeline(self, request: Request) -> Response:
        """One scaling, step by step."""
        return await self._ask(TimelineAsked(request.query_params.get("key", "")[:KEY_LENGTH_MAX]))

    async def scale(self, request: Request) -> Response:
        """A dry run or a scaling; the answer is the id under which its statuses will appear."""
        try:
            form = read_form(json.loads(await _body(request)))
        except FormError as error:
            return _refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except (ValueError, RecursionError):
            return _refused(HTTPStatus.BAD_REQUEST, "the body is no JSON")
        except TimeoutError:
            return _refused(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {BODY_WITHIN_S:g} s")
        except AskError as error:
            return _refused(HTTPStatus(error.status), str(error))
        return await self._ask(ScalingAsked(form), HTTPStatus.ACCEPTED)

    async def _ask(self, asked: Asked, status: HTTPStatus = HTTPStatus.OK) -> Response:
        self._post(asked)
        try:
            body = await asyncio.wait_for(asyncio.wrap_future(asked.answer), ANSWER_WITHIN_S)
        except TimeoutError:
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "busy, ask again")
        except AskError as error:
            return _refused(HTTPStatus(error.status), str(error))
        return JSONResponse(body, status, headers={"Cache-Control": "no-store"})


class Guarded:
    """The application behind the gate: what is refused never reaches it, and every answer has the safe headers."""

    def __init__(self, app: ASGIApp, gate: Gate, page: Page) -> None:
        self.streams = page.streams
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._gate.refusal(scope["method"], scope["path"], headers)
        app = self._app if refusal is None else _refused(*refusal)

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                safe = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *safe]}
            await send(message)

        await app(scope, receive, send_safely)


def application(post: Post, gate: Gate) -> Guarded:
    """The whole web application, an ASGI one."""
    page = Page(post)
    routes = [
        Route("/api/events", page.events, methods=["GET"]),
        Route("/api/series", page.series, methods=["GET"]),
        Route("/api/timeline", page.timeline, methods=["GET"]),
        Route("/api/scale", page.scale, methods=["POST"]),
        *(Route(path, _serve(asset), methods=["GET"]) for path, asset in read_assets().items()),
    ]
    return Guarded(Starlette(routes=routes), gate, page)


def _serve(asset: Asset) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        headers = {"ETag": asset.etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == asset.etag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(asset.body, media_type=asset.media_type, headers=headers)

    return serve


async def _body(request: Request) -> bytes:
    body = bytearray()
    async with asyncio.timeout(BODY_WITHIN_S):
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise AskError(f"a body has at most {BODY_BYTES_MAX} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return bytes(body)


def _refused(status: HTTPStatus, text: str) -> Response:
    return JSONResponse({"error": text}, status, headers={"Cache-Control": "no-store"})
