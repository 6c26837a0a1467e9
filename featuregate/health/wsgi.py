"""The health of a discoverer as a WSGI app (PEP 3333), for Flask, Django and their servers. No framework is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from featuregate.health.responses import respond

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from featuregate.polling.discoverer import Discoverer


def wsgi_app(features: Discoverer) -> WSGIApplication:
    """Return an app that answers by the health of a discoverer: see :func:`featuregate.health.responses.respond`.

    The app does no I/O. Where a server forks its workers, each worker's discoverer starts to poll at the first request.
    """

    def health(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        features.ensure_polling()
        path, query = environ.get("PATH_INFO", ""), environ.get("QUERY_STRING", "")
        answer = respond(environ["REQUEST_METHOD"], path, query, features.health())
        start_response(f"{answer.status.value} {answer.status.phrase}", list(answer.headers))
        return [answer.body]

    return health
