"""Traces in MLflow's store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import md5
from typing import TYPE_CHECKING, Any

from .store import STUDY_TAG
from .traces import CALL, CHECK, READ, FailedTrace, SentCall, Step

if TYPE_CHECKING:
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient

SECOND, MILLISECOND = 10**9, 10**6
"""In nanoseconds."""
Moments = tuple[int, int]
"""When something began and ended, in nanoseconds since 1970 (UTC)."""


class TraceLog:
    """The traces of one study in an experiment."""

    def __init__(self, uri: str, experiment: str, study: str) -> None:
        """Open the store."""
        from mlflow.tracing.client import TracingClient

        self._client: TracingClient = TracingClient(uri)
        self._experiment, self._study = experiment, study

    def known(self) -> set[str]:
        """Return the ids of the traces that are there."""
        query = f"tags.`{STUDY_TAG}` = '{self._study}'"
        there = self._client.search_traces(
            locations=[self._experiment], filter_string=query, max_results=500, include_spans=False
        )
        return {str(trace.info.trace_id).removeprefix("tr-") for trace in there}

    def throw_away(self) -> None:
        """Delete the traces that are there."""
        ids = [f"tr-{known}" for known in self.known()]
        if ids:
            self._client.delete_traces(self._experiment, trace_ids=ids)

    def id_of(self, failed: FailedTrace) -> str:
        """Return a trace's id: the same whenever the same study is shown."""
        named = json.dumps([self._study, failed.policy, *(failed.tags[name] for name in ("task", "stage", "check"))])
        return md5(named.encode(), usedforsecurity=False).hexdigest()

    def add(self, failed: FailedTrace, *, run: str, at: datetime | None) -> None:
        """Log one failed check under the run that it belongs to.

        Where no calls are recorded, the moments begin ``at`` one, keep the order of the steps and mean nothing else.
        """
        from mlflow.entities import TraceInfo, TraceLocation, TraceState

        name = self.id_of(failed)
        moments = _moments(failed.steps) or _in_order(len(failed.steps), datetime.now(UTC) if at is None else at)
        began, ended = min(began for began, _ in moments), max(ended for _, ended in moments)
        self._client.log_spans(self._experiment, _spans(failed, name, moments, (began, ended)))
        self._client.start_trace(
            TraceInfo(
                trace_id=f"tr-{name}",
                trace_location=TraceLocation.from_experiment_id(self._experiment),
                request_time=began // MILLISECOND,
                execution_duration=(ended - began) // MILLISECOND,
                state=TraceState.ERROR,
                request_preview=failed.question[:1000],
                response_preview=failed.answer[:1000],
                trace_metadata={"mlflow.sourceRun": run, "mlflow.trace_schema.version": "3"},
                tags={**failed.tags, STUDY_TAG: self._study, "mlflow.traceName": _title(failed)},
            )
        )


def _title(failed: FailedTrace) -> str:
    return f"{failed.policy}: lost in {failed.tags['kind']}"


def _moments(steps: Sequence[Step]) -> list[Moments]:
    """Return when steps were, by their calls; nothing without any call.

    What has no call of its own was when the step before it ended; what memory gave back, when the next step began.
    """
    known = [_around([_sent_at(call) for call in step.calls]) for step in steps]
    begins = [own[0] for own in known if own]
    last, moments = min(begins, default=0), list[Moments]()
    for place, (step, own) in enumerate(zip(steps, known, strict=True)):
        later = (own[0] for own in known[place:] if own)
        moment = next(later, last) if step.type == READ else last
        moments.append(own or (moment, moment))
        last = moments[-1][1]
    return moments if begins else []


def _around(moments: Sequence[Moments]) -> Moments | None:
    return (min(began for began, _ in moments), max(ended for _, ended in moments)) if moments else None


def _in_order(steps: int, at: datetime) -> list[Moments]:
    """Return moments that follow each other."""
    began = round(at.timestamp() * 1000) * MILLISECOND
    return [(began + place * MILLISECOND, began + (place + 1) * MILLISECOND) for place in range(steps)]


def _sent_at(call: SentCall) -> Moments:
    return round(call.began * SECOND), round(call.ended * SECOND)


def _spans(failed: FailedTrace, trace: str, moments: Sequence[Moments], whole: Moments) -> list[Span]:
    """Return the check's span, those of its steps below it, and those of their calls below these."""
    from mlflow.entities import Span

    outputs = {"answer": failed.answer, "score": failed.score, "what happened": failed.account}
    first = int(trace[:16], 16)
    spans: list[Span] = []

    def add(name: str, parent: str | None, when: Moments, attributes: Mapping[str, Any]) -> str:
        own = f"{(first + len(spans)) % 2**64 or 1:016x}"
        values = {"mlflow.traceRequestId": f"tr-{trace}", **attributes}
        code = "STATUS_CODE_ERROR" if parent is None else "STATUS_CODE_OK"
        spans.append(
            Span.from_dict(
                {
                    "trace_id": f"tr-{trace}",
                    "span_id": own,
                    "parent_span_id": parent,
                    "name": name,
                    "start_time_unix_nano": when[0],
                    "end_time_unix_nano": when[1],
                    "status": {"code": code, "message": ""},
                    "attributes": {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()},
                }
            )
        )
        return own

    root = add(_title(failed), None, whole, _step_attributes(CHECK, failed.question, outputs))
    for step, when in zip(failed.steps, moments, strict=True):
        own = add(step.name, root, when, _step_attributes(step.type, step.inputs, step.outputs))
        for call in step.calls:
            add(f"{call.role} call", own, _sent_at(call), _call_attributes(call))
    return spans


def _step_attributes(kind: str, inputs: Any, outputs: Any) -> dict[str, Any]:
    values = {"mlflow.spanType": kind, "mlflow.spanInputs": inputs}
    return values if outputs is None else values | {"mlflow.spanOutputs": outputs}


def _call_attributes(call: SentCall) -> dict[str, Any]:
    usage = {"input_tokens": call.input_tokens, "output_tokens": call.output_tokens}
    tools = {"tools": call.tools} if call.tools else {}
    return _step_attributes(CALL, {"messages": call.messages}, {"choices": [{"message": call.reply}]}) | {
        "mlflow.message.format": "openai",
        "mlflow.chat.tokenUsage": usage | {"total_tokens": sum(usage.values())},
        "model": call.model,  # under its own name for it, MLflow looks prices up, which takes seconds
        "role": call.role,
        **usage,
        "cached": call.cached,
        **tools,
    }
