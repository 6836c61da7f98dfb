"""Traces in MLflow's store."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from hashlib import md5
from typing import TYPE_CHECKING, Any

from .traces import CHECK, FailedTrace

if TYPE_CHECKING:
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient

TRACED_TAG = "mnemotune.study"
"""Names the study that a trace is of."""


class TraceLog:
    """The traces of one study in an experiment."""

    def __init__(self, uri: str, experiment: str, study: str) -> None:
        """Open the store."""
        from mlflow.tracing.client import TracingClient

        self._client: TracingClient = TracingClient(uri)
        self._experiment, self._study = experiment, study

    def known(self) -> set[str]:
        """Return the ids of the traces that are there."""
        query = f"tags.`{TRACED_TAG}` = '{self._study}'"
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

        The moments keep the order of the steps and mean nothing else: when each step was is not recorded.
        """
        from mlflow.entities import TraceInfo, TraceLocation, TraceState

        name, began = self.id_of(failed), round((datetime.now(UTC) if at is None else at).timestamp() * 1000)
        spans = self._spans(failed, name, began * 1_000_000)
        self._client.log_spans(self._experiment, spans)
        self._client.start_trace(
            TraceInfo(
                trace_id=f"tr-{name}",
                trace_location=TraceLocation.from_experiment_id(self._experiment),
                request_time=began,
                execution_duration=len(spans),
                state=TraceState.ERROR,
                request_preview=failed.question[:1000],
                response_preview=failed.answer[:1000],
                trace_metadata={"mlflow.sourceRun": run, "mlflow.trace_schema.version": "3"},
                tags={**failed.tags, TRACED_TAG: self._study, "mlflow.traceName": _title(failed)},
            )
        )

    def _spans(self, failed: FailedTrace, name: str, began: int) -> list[Span]:
        outputs = {"answer": failed.answer, "score": failed.score, "what happened": failed.account}
        root = f"{int(name[:16], 16) or 1:016x}"
        last = began + (len(failed.steps) + 1) * 1_000_000
        whole = _span(name, root, None, _title(failed), CHECK, (began, last), failed.question, outputs)
        spans = [whole]
        for place, step in enumerate(failed.steps, 1):
            own = f"{(int(root, 16) + place) % 2**64 or 1:016x}"
            moments = (began + place * 1_000_000, began + (place + 1) * 1_000_000)
            spans.append(_span(name, own, root, step.name, step.type, moments, step.inputs, step.outputs))
        return spans


def _title(failed: FailedTrace) -> str:
    return f"{failed.policy}: lost in {failed.tags['kind']}"


def _span(
    trace: str,
    own: str,
    parent: str | None,
    name: str,
    type_: str,
    moments: tuple[int, int],
    inputs: Any,
    outputs: Any,
) -> Span:
    from mlflow.entities import Span

    values = {"mlflow.traceRequestId": f"tr-{trace}", "mlflow.spanType": type_, "mlflow.spanInputs": inputs}
    values |= {} if outputs is None else {"mlflow.spanOutputs": outputs}
    return Span.from_dict(
        {
            "trace_id": f"tr-{trace}",
            "span_id": own,
            "parent_span_id": parent,
            "name": name,
            "start_time_unix_nano": moments[0],
            "end_time_unix_nano": moments[1],
            "status": {"code": "STATUS_CODE_OK" if parent else "STATUS_CODE_ERROR", "message": ""},
            "attributes": {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()},
        }
    )
