"""Traces in MLflow's store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import md5
from typing import TYPE_CHECKING

from .store import STUDY_TAG
from .traces import CHECK, FailedTrace, Step

if TYPE_CHECKING:
    from mlflow.entities import Span
    from mlflow.tracing.client import TracingClient


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
                tags={**failed.tags, STUDY_TAG: self._study, "mlflow.traceName": _title(failed)},
            )
        )

    def _spans(self, failed: FailedTrace, name: str, began: int) -> list[Span]:
        outputs = {"answer": failed.answer, "score": failed.score, "what happened": failed.account}
        root, last = f"{int(name[:16], 16) or 1:016x}", began + (len(failed.steps) + 1) * 1_000_000
        whole = Step(_title(failed), CHECK, failed.question, outputs)
        spans = [_span(whole, {"trace_id": f"tr-{name}", "span_id": root, "parent_span_id": None}, (began, last))]
        for place, step in enumerate(failed.steps, 1):
            own = f"{(int(root, 16) + place) % 2**64 or 1:016x}"
            ids = {"trace_id": f"tr-{name}", "span_id": own, "parent_span_id": root}
            spans.append(_span(step, ids, (began + place * 1_000_000, began + (place + 1) * 1_000_000)))
        return spans


def _title(failed: FailedTrace) -> str:
    return f"{failed.policy}: lost in {failed.tags['kind']}"


def _span(step: Step, ids: Mapping[str, str | None], moments: tuple[int, int]) -> Span:
    from mlflow.entities import Span

    values = {"mlflow.traceRequestId": ids["trace_id"], "mlflow.spanType": step.type, "mlflow.spanInputs": step.inputs}
    values |= {} if step.outputs is None else {"mlflow.spanOutputs": step.outputs}
    return Span.from_dict(
        {
            **ids,
            "name": step.name,
            "start_time_unix_nano": moments[0],
            "end_time_unix_nano": moments[1],
            "status": {"code": "STATUS_CODE_OK" if ids["parent_span_id"] else "STATUS_CODE_ERROR", "message": ""},
            "attributes": {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()},
        }
    )
