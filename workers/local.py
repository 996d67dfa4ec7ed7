"""The embedded stack: one launcher that starts PostgreSQL, Valkey and our processes on one machine, watches them, and stops them in order."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline import log
from pipeline.errors import ServiceUnavailable
from workers.broker import is_rabbit
from workers.embedded import identity as who
from workers.embedded.info import FILE, PartInfo, StackInfo, read_stack, stop_stack, wait_for_stack, write_stack
from workers.embedded.lock import DataLock
from workers.embedded.ports import free_port, is_free, is_listening, taken
from workers.embedded.postgres import Postgres
from workers.embedded.processes import start_ticks
from workers.embedded.stopping import StopRequest, stop_processes
from workers.embedded.valkey import Valkey
from workers.embedded.watch import Process, ProcessSpec, Watched, rotated

__all__ = ["ProcessSpec", "Stack", "StackInfo", "is_listening", "read_stack", "stop_stack", "wait_for_stack"]

TICK_S = 0.1
READY_TIMEOUT_S = 120.0

_log = log.get("workers.local")


class Stack:
    """Everything on one machine, as a context manager: entered when all is ready, left when all has stopped.

    One thread starts every child and lives until they have stopped, because the kernel ends a child when the *thread* that
    started it ends. SIGINT, SIGTERM or SIGHUP begins the ordered stop (the first raises KeyboardInterrupt or SystemExit in the body and
    ends `wait()`, a second one shortens the grace). A URL that is given stands for a service that is not ours.
    `ports` names further ports for the processes; 0 takes a free one, any other must be free.
    """

    def __init__(
        self,
        data: Path,
        *,
        migrate: Callable[[str], None],
        specs: Callable[[StackInfo], Sequence[ProcessSpec]],
        database_url: str | None = None,
        redis_url: str | None = None,
        postgres_port: int = 0,
        valkey_port: int = 0,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        self.data = data.absolute()
        self.stopped: list[str] = []  # names in the order in which they stopped
        self._migrate = migrate
        self._specs = specs
        self._ports = dict(ports or {})
        self._postgres = None if database_url else Postgres(self.data / "postgres", postgres_port, log=self._log_file("postgres"))
        self._valkey = None if redis_url else Valkey(self.data / "valkey", valkey_port, log=self._log_file("valkey"))
        self._urls = (database_url, redis_url)
        self._processes: list[Process] = []
        self._watched: list[Watched] = []
        self._lock = DataLock(self.data)
        self._request = StopRequest()
        self._spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stack")
        self._watching: Future[None] | None = None
        self._info: StackInfo | None = None

    @property
    def info(self) -> StackInfo:
        """The running stack as stack.json has it; ServiceUnavailable before it was entered."""
        if self._info is None:
            raise ServiceUnavailable(f"The stack on {self.data} has not started yet; enter it first.")
        return self._info

    def __enter__(self) -> Self:
        self._make_folders()
        self._lock.acquire()
        self._request.install()
        try:
            (self.data / FILE).unlink(missing_ok=True)  # of a launcher that was killed: the lock is ours now
            self._spawner.submit(self._start).result()
        except BaseException:
            self._end()
            raise
        self._watching = self._spawner.submit(self._watch)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def wait(self) -> None:
        """Block until a signal or `request_stop` asks the stack to stop."""
        try:
            while not self._request.stopping:
                if self._watching is not None and self._watching.done():
                    self._watching.result()
                time.sleep(TICK_S)
        except (KeyboardInterrupt, SystemExit):
            if not self._request.stopping:
                raise

    def request_stop(self) -> None:
        """End `wait()`, from any thread."""
        self._request.stopping = True

    # what follows runs in the spawner thread, but for _end and _make_folders

    def _start(self) -> None:
        for service in self._services():
            if self._request.stopping:
                return
            rotated(self._log_file(service.name))
            begun = time.monotonic()
            self._watched.append(Watched(service, begun))
            service.start()
            _log.info("part_ready", part=service.name, seconds=round(time.monotonic() - begun, 2))
        self._info = self._describe()
        if not self._request.stopping:
            self._migrate(self._info.database_url)
        if not self._request.stopping:
            self._start_processes(self._specs(self._info))
            self._publish()

    def _start_processes(self, specs: Sequence[ProcessSpec]) -> None:
        for spec in specs:
            process = Process(spec, rotated(self._log_file(spec.name)), self._environment() | dict(spec.env))
            process.start()
            self._processes.append(process)
            self._watched.append(Watched(process, time.monotonic()))
        self._await_ready(time.monotonic())

    def _await_ready(self, begun: float) -> None:
        waiting = [process for process in self._processes if process.spec.ready is not None]
        while waiting and not self._request.stopping:
            for process in list(waiting):
                log_file = self._log_file(process.name)
                if not process.alive():
                    raise ServiceUnavailable(f"{process.name} ended with code {process.returncode} before it was ready; its log {log_file} says why.")
                if process.spec.ready is not None and process.spec.ready():
                    waiting.remove(process)
                    _log.info("part_ready", part=process.name, seconds=round(time.monotonic() - begun, 2))
                elif time.monotonic() > begun + READY_TIMEOUT_S:
                    raise ServiceUnavailable(f"{process.name} was not ready after {READY_TIMEOUT_S:.0f} s; its log {log_file} says why.")
            time.sleep(TICK_S)

    def _watch(self) -> None:
        while not self._request.stopping:
            changed = [watched.part.name for watched in self._watched if watched.tick(time.monotonic())]
            if changed:
                self._try_publish()
            time.sleep(TICK_S)

    def _shutdown(self) -> None:
        self.stopped += stop_processes(self._processes, lambda: self._request.hurry)
        for service in reversed(self._services()):
            service.stop()
            self.stopped.append(service.name)
            _log.info("part_stopped", part=service.name)

    def _end(self) -> None:
        self._request.stopping = True
        try:
            self._spawner.submit(self._shutdown).result()
            self._spawner.shutdown()
            (self.data / FILE).unlink(missing_ok=True)
        finally:
            self._lock.release()
            self._request.uninstall()

    def _services(self) -> list[Postgres | Valkey]:
        return [service for service in (self._postgres, self._valkey) if service is not None]

    def _describe(self) -> StackInfo:
        database_url, redis_url = self._urls
        services = {service.name: service.port for service in self._services()}
        return StackInfo(
            pid=os.getpid(),
            started_ticks=start_ticks(os.getpid()) or 0,
            data=self.data,
            database_url=self._postgres.url if self._postgres else database_url or "",
            redis_url=self._valkey.url if self._valkey else redis_url or "",
            embedded=database_url is None and redis_url is None,
            ports=services | {name: _port(name, port) for name, port in self._ports.items()},
        )

    def _publish(self) -> None:
        parts = tuple(PartInfo(w.part.name, w.part.pid if w.part.alive() else None, w.restarts) for w in self._watched)
        self._info = dataclasses.replace(self.info, parts=parts)
        write_stack(self._info)

    def _try_publish(self) -> None:
        """A full disk makes stack.json old, but must not end the supervision."""
        try:
            self._publish()
        except OSError as error:
            _log.error("stack_file_not_written", reason=error.strerror)

    def _environment(self) -> dict[str, str]:
        """What every process inherits: where the services are. The URLs alone would read as a site, so the mode is said as well."""
        mode = "demo" if self.info.embedded else "site"
        broker = "CTREPORT_RABBITMQ_URL" if is_rabbit(self.info.redis_url) else "CTREPORT_REDIS_URL"
        urls = {"CTREPORT_DATABASE_URL": self.info.database_url, broker: self.info.redis_url}
        return {"CTREPORT_MODE": mode, **os.environ, **urls, "CTREPORT_DATA": str(self.data)}

    def _log_file(self, name: str) -> Path:
        return self.data / "logs" / f"{name}.log"

    def _make_folders(self) -> None:
        """The data folder is ours alone; only where PostgreSQL has to run as nobody may others pass through it."""
        if not self.data.exists():
            self.data.mkdir(parents=True)
            self.data.chmod(0o711 if self._postgres is not None and who.needs_nobody() else 0o700)
        (self.data / "logs").mkdir(mode=0o700, exist_ok=True)


def _port(name: str, port: int) -> int:
    if port == 0:
        return free_port()
    if not is_free(port):
        raise taken(name, port, f"the port of {name}")
    return port
