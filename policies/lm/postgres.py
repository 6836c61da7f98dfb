"""A connection to PostgreSQL that comes back when it is lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from ...data.errors import MnemotuneError, TryLater
from .secrets import HIDDEN, redacted

if TYPE_CHECKING:
    from psycopg import Connection

PATIENCE_SECONDS = 60.0
"""How long a lost database is waited for; a restart takes seconds."""
CLIENT_SETTINGS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
SERVER_SETTINGS = "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
"""Either side notices within half a minute that the other's machine is gone; a dead machine's locks go with it."""
MAKING = 7_310_861_234_205_417
"""The lock under which tables are made."""

_log = logging.getLogger(__name__)


class DatabaseError(MnemotuneError, RuntimeError):
    """Say why a database cannot be used."""


class DatabaseSilent(DatabaseError, TryLater):  # noqa: N818 - a TryLater
    """A database that was in use has not answered for long."""


class _Lost(Exception):  # noqa: N818 - what happened
    """The connection is gone."""


class Postgres:
    """One connection, used by one thread at a time. What is executed must do no harm when it is done twice."""

    def __init__(self, url: str, *, begin: Callable[[Connection], None] = lambda _: None) -> None:
        """Connect to ``postgresql://USER:PASSWORD@HOST/DATABASE``; ``begin`` is called with each new connection.

        Raises DatabaseError, in one line and without the password, when that cannot be done.
        """
        self.name = redacted(url)
        if HIDDEN in url:
            raise DatabaseError(
                f"storage: the login of {url} is not written down: set MNEMOTUNE_STORAGE to the whole URL"
            )
        self._url = url
        self._begin = begin
        self._turn = threading.Lock()
        self._silent: DatabaseSilent | None = None
        try:
            self._connection = self._connect()
        except _Lost as error:
            raise DatabaseError(str(error)) from None

    def execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query. A lost connection is made again.

        Raises DatabaseError, and DatabaseSilent when the database does not answer for a minute.
        """
        with self._turn:
            if self._silent is not None:
                raise self._silent
            retrying = Retrying(
                retry=retry_if_exception_type(_Lost),
                stop=stop_after_delay(PATIENCE_SECONDS),
                wait=wait_exponential(multiplier=0.1, max=5),
                before_sleep=self._tell,
                reraise=True,
            )
            try:
                return retrying(self._execute, query, values)
            except _Lost as error:
                self._silent = DatabaseSilent(f"{error} (tried for {PATIENCE_SECONDS:.0f} s)")
                raise self._silent from None

    @contextmanager
    def making(self) -> Iterator[None]:
        """Keep others from making tables meanwhile: two that make the same ones at once break each other."""
        self.execute("SELECT pg_advisory_lock(%s)", [MAKING])
        try:
            yield
        finally:
            self.execute("SELECT pg_advisory_unlock(%s)", [MAKING])

    def close(self) -> None:
        """End the connection. Closing twice does no harm."""
        self._connection.close()

    def _execute(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        import psycopg

        if self._connection.broken:
            self._connection = self._connect()
        try:
            cursor = self._connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise (_Lost if self._connection.broken else DatabaseError)(self._line(error)) from error

    def _connect(self) -> Connection:
        try:
            import psycopg
        except ImportError:
            raise DatabaseError("PostgreSQL needs psycopg: pip install 'mnemotune[postgres]'") from None
        try:
            connection = psycopg.connect(self._url, autocommit=True, **CLIENT_SETTINGS)
            with ExitStack() as stack:
                stack.callback(connection.close)
                connection.execute(SERVER_SETTINGS)
                self._begin(connection)
                stack.pop_all()
        except psycopg.Error as error:
            raise _Lost(self._line(error)) from None
        return connection

    def _line(self, error: Exception) -> str:
        password = urlsplit(self._url).password
        text = redacted(" ".join(str(error).split()), password, password and unquote(password))
        return f"{self.name}: {text}"

    def _tell(self, state: RetryCallState) -> None:
        if state.attempt_number == 2:  # the first time over, the connection alone was lost
            problem = state.outcome and state.outcome.exception()
            _log.warning("%s. The database is waited for, for at most %.0f s", problem, PATIENCE_SECONDS)


class Lock:
    """Keeps other processes, on any machine, out of what has a name, until this process ends or closes it."""

    def __init__(self, url: str, name: str) -> None:
        """Take the lock. Raises Taken when another has it, and DatabaseError."""
        self._name = name
        self._held = False
        self.database = Postgres(url, begin=self._take)
        self._held = True

    def check(self) -> None:
        """Make sure that the lock is held; a lost connection is made again.

        Raises Taken when another took it meanwhile, and what ``Postgres.execute`` raises.
        """
        self.database.execute("SELECT 1")

    def close(self) -> None:
        """Let others in."""
        self.database.close()

    def _take(self, connection: Connection) -> None:
        row = connection.execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", [self._name]).fetchone()
        if row != (True,):
            why = f"another process holds the lock of {self._name!r}"
            raise _Lost(why) if self._held else Taken(why)  # for a while, it may be our own lost connection's


class Taken(DatabaseError):  # noqa: N818 - no fault of the database
    """Another process holds the lock."""
