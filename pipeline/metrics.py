"""Every metric, declared once. Labels name steps and outcomes, never patients or studies."""

from __future__ import annotations

import os

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

CONTENT_TYPE = CONTENT_TYPE_LATEST
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # set by the stack: every process then writes there, and one page shows all

INSTANCES = Counter("ctreport_instances", "SOP instances answered by the listener", ["status"])
RECEIVED_BYTES = Counter("ctreport_received_bytes", "bytes archived")
ASSOCIATIONS = Gauge("ctreport_associations", "associations open now", multiprocess_mode="livesum")
COMMITMENTS = Counter("ctreport_commitments", "storage commitments by outcome: committed, refused, delayed, given_up", ["outcome"])
PERFORMED_STEPS = Counter("ctreport_performed_steps", "MPPS requests by outcome", ["outcome"])
REFUSED_ASSOCIATIONS = Counter("ctreport_refused_associations", "associations and connections refused, by reason", ["reason"])
STACKS_PASSED = Counter("ctreport_stacks_passed", "stacks that were chosen first and whose pixels could not be read, so that the next one was")
STEPS = Counter("ctreport_steps", "steps ended, by outcome", ["step", "outcome"])
STEP_SECONDS = Histogram("ctreport_step_seconds", "seconds per step", ["step"], buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300))
VERDICTS = Counter("ctreport_verdicts", "studies judged for completeness, by verdict", ["verdict"])
RULE_HITS = Counter("ctreport_rule_hits", "rules that fired", ["rule", "severity"])
ASKED = Counter("ctreport_drafts_asked", "drafts asked for over the HTTP API", ["department"])
TOKENS = Counter("ctreport_tokens", "tokens generated", ["rung"])
VERIFY_STEPS = Counter("ctreport_verify_steps", "forward passes that verified drafts", ["rung"])
ACCEPTANCE = Gauge("ctreport_acceptance", "share of drafted tokens accepted in the last draft", ["rung"], multiprocess_mode="mostrecent")
RUNG_UP = Gauge("ctreport_rung_up", "1 while a rung of the drafting ladder may write", ["rung"], multiprocess_mode="mostrecent")
RUNGS_PASSED = Counter("ctreport_rungs_passed", "texts that a rung could not write, so that the next one was asked", ["rung"])
RINGS = Counter("ctreport_rings", "doorbells rung", ["step", "outcome"])
WAITING = Gauge("ctreport_waiting", "rows that a step could claim", ["step"], multiprocess_mode="mostrecent")
QUEUE_AGE = Gauge("ctreport_queue_age_seconds", "how long the longest could have been claimed", ["step", "lane"], multiprocess_mode="mostrecent")
QUEUE_ALARM = Gauge("ctreport_queue_alarm", "1 while the longest waits longer than it may", ["step", "lane"], multiprocess_mode="mostrecent")
HANDED_BACK = Counter("ctreport_handed_back", "rows that a process handed back because it had to end")
ALERTS_OPENED = Counter("ctreport_alerts_opened", "suspected critical findings that drafts raised")
ALERTS = Gauge("ctreport_alerts", "critical findings nobody was told of yet: open, overdue", ["standing"], multiprocess_mode="mostrecent")
ALERTS_ESCALATED = Counter("ctreport_alerts_escalated", "alerts that climbed a level because nobody was told", ["level"])
BLOCKS_RESOLVED = Counter("ctreport_blocks_resolved", "hits that blocked a report until somebody answered for them", ["rule"])
DRIFT = Gauge("ctreport_drift", "figures that left their limits in the last nightly sample", multiprocess_mode="mostrecent")
NIGHT = Gauge(
    "ctreport_night", "studies of the plan that is on: planned, beyond its window by the estimate", ["what"], multiprocess_mode="mostrecent"
)
RENEWED = Counter("ctreport_renewed", "open drafts looked at again under newer rules, by outcome", ["outcome"])
FORGOTTEN = Counter("ctreport_forgotten", "old rows about how work went that were removed", ["table"])
RECLAIMED = Counter("ctreport_reclaimed", "expired leases handed back")


def exposition() -> bytes:
    """Prometheus text of this process, or of all processes of the stack where they share a folder."""
    if SHARED_FOLDER not in os.environ:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # the library annotates no constructor
    return generate_latest(registry)
