"""One transaction, and who gives it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from pipeline.alerting import Alerts
from pipeline.asking import Requests
from pipeline.modalities import Commitments, Performed
from pipeline.nightly import NightShift
from pipeline.ports.outcomes import Audit, Deliveries, Doses, Reports, Rules
from pipeline.ports.studies import Studies
from pipeline.renewing import Renewals
from pipeline.sampling import Samples


class Work(Protocol):
    """One transaction."""

    @property
    def studies(self) -> Studies: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def doses(self) -> Doses: ...

    @property
    def reports(self) -> Reports: ...

    @property
    def alerts(self) -> Alerts: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def night(self) -> NightShift: ...

    @property
    def renewals(self) -> Renewals: ...

    @property
    def samples(self) -> Samples: ...

    @property
    def deliveries(self) -> Deliveries: ...

    @property
    def performed(self) -> Performed: ...

    @property
    def commitments(self) -> Commitments: ...

    @property
    def audit(self) -> Audit: ...


class Store(Protocol):
    """Gives transactions. Raises ServiceUnavailable when the database does not answer."""

    def begin(self) -> AbstractContextManager[Work]: ...
