"""What goes wrong, as an answer: a request that meets an error must not end anything."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from fairway.app.live.logs import RunLog
from fairway.errors import InputError, StoreError
from fairway.web.asking import RequestRefusedError
from fairway.web.page_log import report_error

NO_STORE = {"Cache-Control": "no-store"}


async def answering(answer: Awaitable[Response], request: Request, log: RunLog) -> Response:
    """The answer, or what is wrong. An unexpected error is logged whole; its answer has a reference to it only."""
    try:
        return await answer
    except RequestRefusedError as refusal:
        return problem(refusal.status, str(refusal))
    except TimeoutError:
        return problem(504, "the answer takes too long; try again")
    except StoreError as error:
        return problem(507, str(error))
    except InputError as error:
        return problem(422, str(error))
    except Exception as error:
        reference = report_error(log, request, error)
        return problem(500, f"an error in Fairway; its log has the details under the reference {reference}")


def problem(status: int, text: str) -> Response:
    body: Any = {"error": text}
    return Response(msgspec.json.encode(body), status, media_type="application/json", headers=NO_STORE)
