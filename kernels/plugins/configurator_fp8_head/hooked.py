"""What runs in the engine's processes: refuse, quantize, share, prove, keep."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .refusing import reasons_against
from .registering import not_hooked
from .settings import NAME, RefusedError, granularity

log = logging.getLogger(NAME)


def around_loading(original: Callable[..., Any], scheduler: Any, *args: Any, **kw: Any) -> Any:
    """Refuse before the target's weights load, and quantize its head once they are there."""
    reasons = [*not_hooked(), *reasons_against(scheduler)]
    if reasons:
        raise RefusedError(reasons)
    result = original(scheduler, *args, **kw)
    from .quantizing import quantize

    quantize(scheduler.tp_worker.model_runner.model, granularity())
    return result


def around_dividing(original: Callable[..., Any], scheduler: Any, *args: Any, **kw: Any) -> Any:
    """After drafts were given the head's weight, give them the head; then say what was built."""
    result = original(scheduler, *args, **kw)
    from .proving import line
    from .quantizing import quantized_head
    from .sharing import draft_models, share

    target = scheduler.tp_worker.model_runner.model
    head = quantized_head(target)
    drafts = draft_models(getattr(scheduler, "draft_worker", None))
    shared = [share(head, draft) for draft in drafts]
    log.info("%s", line(scheduler, head, shared))
    return result


def around_updating(original: Callable[..., Any], updater: Any, *args: Any, **kw: Any) -> Any:
    """Refuse new weights, before any is written, with the engine's own answer to such a request.

    Loaders write into parameters past all that could stop them (`load_format: direct`), so BF16
    numbers would stand among FP8 ones without a scale; and where one does stop, the engine ends.
    What has a filter of names reloads experts, and no head.
    """
    if kw.get("weight_name_filter") is not None:
        return original(updater, *args, **kw)
    return False, (
        f"{NAME}: the LM head was quantized after its weights were loaded and takes no new ones. "
        "Nothing was changed: start the server again with the new weights."
    )
