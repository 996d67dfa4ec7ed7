"""The Protocols that `flow` needs. Rooms implement them; `workers/wiring.py` and `wiring_drafts.py` are the only places where they meet.

A `Store` gives one `Work` per transaction: leaving the `with` block commits, an exception rolls back. Doorbells are rung after that.
"""

from __future__ import annotations

from pipeline.ports.arriving import Answer, Archive, Arrival, HeaderReader, Incoming, Ledger, PhantomLedger, Receiver
from pipeline.ports.making import Clock, Doorbell, Drafter, Encoder, quiet
from pipeline.ports.outcomes import Audit, Block, Deliveries, Delivery, DoseReport, Doses, OpenReport, ReportRow, Reports, Rules
from pipeline.ports.studies import Filing, Registered, Rejected, Studies
from pipeline.ports.work import Store, Work

__all__ = [
    "Answer",
    "Archive",
    "Arrival",
    "Audit",
    "Block",
    "Clock",
    "Deliveries",
    "Delivery",
    "Doorbell",
    "DoseReport",
    "Doses",
    "Drafter",
    "Encoder",
    "Filing",
    "HeaderReader",
    "Incoming",
    "Ledger",
    "OpenReport",
    "PhantomLedger",
    "Receiver",
    "Registered",
    "Rejected",
    "ReportRow",
    "Reports",
    "Rules",
    "Store",
    "Studies",
    "Work",
    "quiet",
]
