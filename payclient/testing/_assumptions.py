"""What the fake service answers where the specification shows nothing, all in one place."""

# ruff: noqa: RUF009  a Reply is frozen, so all may share one

from __future__ import annotations

from attrs import frozen

from payclient.testing._reply import Reply, failure

_PAGE = "<!DOCTYPE html>\n<html><head><title>404 Not Found</title></head><body><h1>Not Found</h1></body></html>\n"


@frozen(kw_only=True)
class Assumptions:
    """
    The fake's own inventions: what a failure looks like is "not shown" in the specification.

    Do not read the real service off these. They are what services of this kind often do, so that
    there is something to test against; pass others where you know better. Assumed as well, and
    not to be changed here: that live and sandbox know one key and the same transactions, that a
    content type may carry parameters, that `Reply(status=…)` without a body is a failure
    envelope, and every latency, limit and `Retry-After`.

    Attributes:
        refused_key: `Authorization` is absent, of another shape, or carries another key.
        unknown_path: The path is neither of the two; the way a web server says so, not the service.
        wrong_method: The path is right, and the method is not `POST`.
        wrong_content_type: The request says that its body is not JSON.
        unreadable_body: The body is not a JSON object.
        no_reference: The object has no `reference`, or one that is not a text.
        unknown_reference: There is no transaction of that reference.
        throttled: A limit is reached; `Retry-After` is added where the limit says so.

    Source:
        Transaction detail specification, part 5, rule 3, and parts 7 and 8: "not shown".
    """

    refused_key: Reply = Reply(status=401, body=failure("Invalid API key"))
    unknown_path: Reply = Reply(status=404, headers={"content-type": "text/html"}, body=_PAGE)
    wrong_method: Reply = Reply(status=405, headers={"allow": "POST"}, body=failure("Method not allowed"))
    wrong_content_type: Reply = Reply(status=415, body=failure("Content-Type must be application/json"))
    unreadable_body: Reply = Reply(status=400, body=failure("The body is not a JSON object"))
    no_reference: Reply = Reply(status=422, body=failure("The reference field is required"))
    unknown_reference: Reply = Reply(status=404, body=failure("Transaction not found"))
    throttled: Reply = Reply(status=429, body=failure("Too many requests"))
