"""What a run is judged by, kept as it happens."""

from fairway.sim.metrics.outcomes import SIZE_CLASSES, JobOutcome
from fairway.sim.metrics.recorder import JobFacts, MetricsRecorder, QueueFacts
from fairway.sim.metrics.summary import Metrics, WaitMetrics, summarize

__all__ = [
    "SIZE_CLASSES",
    "JobFacts",
    "JobOutcome",
    "Metrics",
    "MetricsRecorder",
    "QueueFacts",
    "WaitMetrics",
    "summarize",
]
