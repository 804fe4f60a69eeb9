"""Asks: requests for a next candidate, leased to an author."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from kevolve_mcp.actions import Action
from kevolve_mcp.errors import Conflict, NotFound
from kevolve_mcp.search.provenance import AuthorId
from kevolve_mcp.search.tree import Ask, Expansion

from . import notes, schema
from .artifacts import Artifacts
from .engine import Database
from .records import NewAsk
from .rows import next_seq, session_row


class Asks:
    """Asks. An ask is open while it has no node. Its lease says until when its author is expected
    to answer; a later answer is accepted nevertheless. Authors need distinct names: equal names
    share a lease."""

    def __init__(
        self, database: Database, artifacts: Artifacts, clock: Callable[[], float]
    ) -> None:
        self._database = database
        self._artifacts = artifacts
        self._clock = clock

    def next_seq(self, session: str) -> int:
        """Return the seq of the next ask, unless another process adds one first; randomness and
        text are derived from it."""
        with self._database.read() as connection:
            session_row(connection, session)
            return next_seq(connection, schema.asks, "session", session)

    def add(
        self,
        session: str,
        expansion: Expansion,
        shown: str,
        *,
        author: AuthorId,
        lease_s: float,
        seq: int | None = None,
        skills: Sequence[str] = (),
        held: Sequence[str] = (),
    ) -> Ask:
        """Insert one ask; see `add_all`."""
        new = NewAsk(expansion, shown, tuple(skills), tuple(held))
        return self.add_all(session, (new,), author=author, lease_s=lease_s, first_seq=seq)[0]

    def add_all(
        self,
        session: str,
        new: Sequence[NewAsk],
        *,
        author: AuthorId,
        lease_s: float,
        first_seq: int | None = None,
    ) -> tuple[Ask, ...]:
        """Insert asks with consecutive seqs, all or none.

        first_seq: the seq from `next_seq` for which the texts were made. Raises Conflict when it is
        taken by now (read the tree and select again), and when the session is over.
        """
        shown = [self._artifacts.put(ask.shown) for ask in new]
        with self._database.write() as connection:
            session_row(connection, session, lock=True, opened=True)
            first = next_seq(connection, schema.asks, "session", session)
            if first_seq is not None and first_seq != first:
                raise Conflict(
                    f"ask a{first_seq} of session {session} cannot be added: the next one is "
                    f"a{first}.",
                    "Another process added an ask in between; read the tree and select again.",
                )
            now = self._clock()
            for seq, (ask, text) in enumerate(zip(new, shown, strict=True), first):
                connection.execute(
                    insert(schema.asks).values(
                        session=session,
                        seq=seq,
                        parents=list(ask.expansion.parents),
                        memory=ask.expansion.memory,
                        role=ask.expansion.role,
                        annotations=notes.of_expansion(ask.expansion),
                        shown=text,
                        held=list(ask.held),
                        author=notes.author_text(author),
                        created=now,
                        lease_until=now + lease_s,
                        taken=now if lease_s > 0 else None,
                    )
                )
                for skill in dict.fromkeys(ask.skills):
                    connection.execute(
                        insert(schema.skill_shown).values(skill=skill, session=session, ask=seq)
                    )
            rows = [_row(connection, session, seq) for seq in range(first, first + len(new))]
        return tuple(map(ask_of, rows))

    def get(self, session: str, seq: int) -> Ask:
        """Return an ask. Raises NotFound."""
        with self._database.read() as connection:
            return ask_of(_row(connection, session, seq))

    def shown(self, session: str, seq: int) -> str:
        """Return the text given to its author, which stays the same when read again. Raises
        NotFound."""
        with self._database.read() as connection:
            digest = _row(connection, session, seq).shown
        return self._artifacts.text(digest)

    def held_by(self, session: str, author: AuthorId) -> dict[int, tuple[str, ...]]:
        """Return the full contents of each ask that this author holds, by seq."""
        a = schema.asks
        with self._database.read() as connection:
            rows = connection.execute(
                select(a.c.seq, a.c.held)
                .where(a.c.session == session, a.c.author == notes.author_text(author))
                .order_by(a.c.seq)
            ).all()
        return {row.seq: tuple(row.held) for row in rows}

    def rewrite(
        self, session: str, seq: int, shown: str, *, author: AuthorId, held: Sequence[str] = ()
    ) -> None:
        """Replace the text of an ask for its new author; without effect when another author holds
        it."""
        digest, a = self._artifacts.put(shown), schema.asks
        with self._database.write() as connection:
            session_row(connection, session, lock=True)
            own = a.c.author == notes.author_text(author)
            same = (a.c.session == session, a.c.seq == seq, own)
            connection.execute(update(a).where(*same).values(shown=digest, held=list(held)))

    def open(self, session: str) -> tuple[Ask, ...]:
        """Return asks without a node whose lease has not expired, in the order of their seq."""
        now = self._clock()
        with self._database.read() as connection:
            session_row(connection, session)
            rows = connection.execute(
                unanswered(session).where(schema.asks.c.lease_until > now)
            ).all()
        return tuple(map(ask_of, rows))

    def take(self, session: str, seq: int, *, author: AuthorId, lease_s: float) -> Ask:
        """Lease an ask to `author`: a renewal for its holder, a new lease for another author once
        the lease has expired.

        Raises NotFound; Conflict while another author holds it, when it has a node, and when the
        session is over."""
        with self._database.write() as connection:
            session_row(connection, session, lock=True, opened=True)
            row, now = _row(connection, session, seq), self._clock()
            n = schema.nodes
            answer = connection.execute(
                select(n.c.seq).where(n.c.session == session, n.c.ask == seq)
            ).scalar()
            if answer is not None:
                raise Conflict(
                    f"ask a{seq} was already answered by node n{answer}.",
                    "Ask for a new one.",
                    Action("next_ask", session=session),
                )
            same = row.author == notes.author_text(author)
            if not same and row.lease_until > now:
                raise Conflict(
                    f"ask a{seq} is leased to {notes.author_of(row.author)} for another "
                    f"{row.lease_until - now:.0f} s.",
                    "Ask for one of your own.",
                    Action("next_ask", session=session),
                )
            # a renewal continues the same work
            taken = row.taken if same and row.lease_until > now else now
            return self._lease(connection, session, seq, author, now + lease_s, taken)

    def take_expired(
        self, session: str, *, author: AuthorId, lease_s: float, without: Collection[int] = ()
    ) -> Ask | None:
        """Lease the oldest ask that has neither a node nor a valid lease, None without one.
        Concurrent callers get different asks. without: seqs to skip."""
        with self._database.write() as connection:
            session_row(connection, session, lock=True, opened=True)
            now = self._clock()
            rows = connection.execute(
                unanswered(session).where(schema.asks.c.lease_until <= now)
            ).all()
            row = next((r for r in rows if r.seq not in without), None)
            return (
                None
                if row is None
                else self._lease(connection, session, row.seq, author, now + lease_s, now)
            )

    def release(self, session: str, seq: int, *, author: AuthorId) -> None:
        """Return the lease, so that the ask may be given again at once; without effect when another
        author holds it."""
        with self._database.write() as connection:
            session_row(connection, session, lock=True)
            if _row(connection, session, seq).author == notes.author_text(author):
                self._lease(connection, session, seq, author, self._clock(), None)

    @staticmethod
    def _lease(
        connection: Connection,
        session: str,
        seq: int,
        author: AuthorId,
        until: float,
        taken: float | None,
    ) -> Ask:
        a = schema.asks
        values = {"author": notes.author_text(author), "lease_until": until, "taken": taken}
        connection.execute(update(a).where(a.c.session == session, a.c.seq == seq).values(values))
        return ask_of(_row(connection, session, seq))


def ask_of(row: Row[Any]) -> Ask:
    """Return the value of a row of `asks`."""
    said = notes.of_ask(row.annotations)
    return Ask(
        row.seq,
        tuple(row.parents),
        row.memory,
        row.role,
        said.annotations,
        said.why,
        said.start,
        said.lent,
        notes.author_of(row.author),
        row.created,
        row.lease_until,
        row.taken,
    )


def unanswered(session: str) -> Any:
    """Return the query for the asks of a session without a node."""
    a, n = schema.asks, schema.nodes
    answered = select(n.c.seq).where(n.c.session == session, n.c.ask == a.c.seq).exists()
    return select(a).where(a.c.session == session, ~answered).order_by(a.c.seq)


def _row(connection: Connection, session: str, seq: int) -> Row[Any]:
    row = connection.execute(
        select(schema.asks).where(schema.asks.c.session == session, schema.asks.c.seq == seq)
    ).one_or_none()
    if row is None:
        session_row(connection, session)
        last = next_seq(connection, schema.asks, "session", session) - 1
        raise NotFound(
            f"session {session} has no ask a{seq}.",
            f"It has a1 to a{last}." if last else "Ask first.",
            *(() if last else (Action("next_ask", session=session),)),
        )
    return row
