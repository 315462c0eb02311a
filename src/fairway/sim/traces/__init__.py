"""Traces: what jobs came, how large they were and how long they ran, in the formats that exist."""

from fairway.sim.traces.csv_traces import AmountColumn, TraceColumns
from fairway.sim.traces.formats import FORMATS, open_nodes, open_trace
from fairway.sim.traces.trace_file import GPU, GPU_MODEL_LABEL, TraceJob, TraceNode, TraceProblems

__all__ = [
    "FORMATS",
    "GPU",
    "GPU_MODEL_LABEL",
    "AmountColumn",
    "TraceColumns",
    "TraceJob",
    "TraceNode",
    "TraceProblems",
    "open_nodes",
    "open_trace",
]
