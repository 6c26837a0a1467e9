"""Refused requests: the status, one sentence, and when to come back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, Response

from featuregate.printable import printable

if TYPE_CHECKING:
    from starlette.requests import Request


class RequestRefused(Exception):
    """A request that gets no answer."""

    def __init__(self, status: int, problem: str, *, retry_after: int | None = None) -> None:
        super().__init__(status, problem)
        self.status = status
        self.problem = printable(problem)  # it may hold texts of a broker
        self.retry_after = retry_after

    def response(self, *, ofrep: bool, page: bool = False) -> Response:
        """Return the response; a 401 says which credentials are understood, and lets a browser ask for them."""
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        if self.status == 401:  # noqa: PLR2004 - Unauthorized
            headers["WWW-Authenticate"] = 'Basic realm="API key as password", charset="UTF-8"' if page else "Bearer"
        body = {"errorCode": "GENERAL", "errorDetails": self.problem} if ofrep else {"error": self.problem}
        return JSONResponse(body, status_code=self.status, headers=headers)


async def refusal(request: Request, refused: Exception) -> Response:
    """Return the response to a refused request, as an exception handler of Starlette. OFREP has a body of its own."""
    assert isinstance(refused, RequestRefused)
    page = "text/html" in request.headers.get("Accept", "")
    return refused.response(ofrep="/ofrep/v1/" in request.scope["path"], page=page)
