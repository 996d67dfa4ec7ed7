"""Years of a hospital as synthetic rows: studies with all that belongs to them, and as many images as a time allows.

Ids are random in value and known from a number. Of a million studies all but the newest 3,000 are signed; those are in every state that there is.
Foreign keys and triggers are off while rows are made (a superuser's right): they hold by construction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

PER_DAY = 1000  # studies; a million is the work of three years
TAIL = 3000  # of the newest, in other states than signed
CHUNK = 21_000  # studies per statement; whole patients
EACH = 3  # studies of a patient
STUDIES_SHARE = 0.35  # of the time that studies may take
IMAGES = 500  # of a study
IMAGES_CHUNK = 50  # studies whose images one statement makes
INDEX_SHARE = 0.45  # of the time for images that making their indexes again takes
OPTIONS = ("session_replication_role = replica", "synchronous_commit = off", "maintenance_work_mem = '512MB'")
Told = Callable[[float, str], None]

# what a study is by its place from the newest: receiving, ready, encoding, encoded, drafting, failed, waiting for a reader, signed
KIND = """CASE WHEN t < 100 THEN 'receiving' WHEN t < 400 THEN 'ready' WHEN t < 430 THEN 'encoding' WHEN t < 700 THEN 'encoded'
 WHEN t < 720 THEN 'drafting' WHEN t < 900 THEN 'failed' WHEN t < 3000 THEN 'waiting' ELSE 'signed' END"""
ROWS = f"""(SELECT n, {KIND} AS kind, now() - t * interval '{86400 / PER_DAY} seconds' AS at,
 CASE WHEN mod(n, 20) = 0 THEN 0 ELSE 2 END AS urgency
 FROM (SELECT n, %(total)s::bigint - n AS t FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n) AS numbers) AS one"""
TEXT = "repeat('右肺上叶见磨玻璃结节，边缘光滑，周围未见胸膜牵拉。', 6)"


def key(letter: str, number: str = "n") -> str:
    """The id of a row as SQL: random in value, so that indexes grow as real ones do."""
    return f"md5('{letter}' || {number})::uuid"


OF_PATIENT = f"(n - 1) / {EACH}"
PATIENT = key("p", OF_PATIENT)
JOB = "CASE WHEN kind IN ('waiting', 'signed') THEN 'drafted' ELSE kind END"
WITH_JOB, WITH_DRAFT = "kind <> 'receiving'", "kind IN ('waiting', 'signed')"
DONE = "NOT (kind = 'receiving' AND mod(n, 10) = 0)"  # its association has ended
UID = "'1.2.840.113619.2.55.3.' || 1000000000 + n"
LEASED = "kind IN ('encoding', 'drafting')"
# table → columns, values, which of the studies have it
FILL: dict[str, tuple[str, str, str]] = {
    "patients": (
        "id, patient_id, issuer, name, name_guess, birth_date, sex, created_at",
        f"{PATIENT}, 'P' || {OF_PATIENT}, '', '张^' || {OF_PATIENT}, false, date '1960-01-01' + (mod(n, 15000))::int, 'F', at",
        f"mod(n, {EACH}) = 0",
    ),
    "studies": (
        "id, study_uid, patient_id, state, revision, images, accession, study_date, description, indication, station, priority, first_received, "
        "last_received, arriving_since, due_at, attempts",
        f"{key('s')}, {UID}, {PATIENT}, CASE kind WHEN 'receiving' THEN kind ELSE 'complete' END, "
        f"CASE kind WHEN 'receiving' THEN 0 ELSE 1 END, {IMAGES}, 'A' || n, at::date, '胸部CT平扫', '咳嗽', "
        "'CT' || mod(n, 4), urgency, at, at, at, at, 0",
        "true",
    ),
    "series": (
        "id, study_id, series_uid, modality, description, body_part, kernel, thickness_mm",
        f"{key('e')}, {key('s')}, {UID} || '.2', 'CT', 'Thorax 1.0', 'CHEST', 'B31f', 1.0",
        "true",
    ),
    "jobs": (
        "id, study_id, revision, state, priority, rank_at, due_at, attempts, lease_owner, lease_until, reason, series_chosen, series_refused, files, "
        "region, is_phantom, features_path, encoder, encoder_version, created_at, encoding_at, encoded_at, drafting_at, ended_at",
        f"{key('j')}, {key('s')}, 1, {JOB}, urgency, at, at, 1, CASE WHEN {LEASED} THEN 'host:1:' || n END, "
        f"CASE WHEN {LEASED} THEN now() + interval '1 minute' * (mod(n, 10) - 2) END, CASE kind WHEN 'failed' THEN 'the model is missing' END, "
        "'[\"1.2\"]', '[]', '[\"objects/ab/abcdef.dcm\"]', 'chest', false, 'features/ab/' || n, 'compact', '1', at, at, at, at, "
        f"CASE WHEN kind IN ('failed', 'waiting', 'signed') THEN at END",
        WITH_JOB,
    ),
    "drafts": (
        "id, job_id, department, findings_text, impression, advice, rung, model, model_digest, phantom_only, tokens, verify_count, "
        "accepted_histogram, seconds, rules_version, watermark, created_at",
        f"{key('d')}, {key('j')}, 'radiology', {TEXT}, '右肺上叶结节', '建议随访', 'sglang', 'm', repeat('a', 64), false, 180, 60, "
        "'{5,10,45}', 2.5, 1, 'AI 草稿', at",
        WITH_DRAFT,
    ),
    "reports": (
        "id, study_id, revision, department, draft_id, demo_only, state, reviewed_by, reviewed_at, signed_by, signed_at, created_at",
        f"{key('r')}, {key('s')}, 1, 'radiology', {key('d')}, false, kind, CASE kind WHEN 'signed' THEN 'dr-a' END, "
        "CASE kind WHEN 'signed' THEN at END, CASE kind WHEN 'signed' THEN 'dr-b' END, CASE kind WHEN 'signed' THEN at END, at",
        WITH_DRAFT,
    ),
    "draft_findings": (
        "draft_id, position, candidate, kind, side, lobe, density, size_mm",
        f"{key('d')}, 0, 1, '结节', '右肺', '上叶', '磨玻璃', 8",
        WITH_DRAFT,
    ),
    "draft_flags": (
        "draft_id, position, rule, version, severity, section, start_at, end_at, message, original",
        f"{key('d')}, 0, 'term', 1, 'replaced', '检查所见', 2, 5, '毛玻璃 → 磨玻璃', '毛玻璃'",
        WITH_DRAFT,
    ),
    "deliveries": (
        "id, draft_id, study_id, kind, state, due_at, attempts, created_at, done_at",
        f"{key('y')}, {key('d')}, {key('s')}, 'markdown', CASE kind WHEN 'signed' THEN 'done' ELSE 'waiting' END, at, 1, at, "
        "CASE kind WHEN 'signed' THEN at END",
        WITH_DRAFT,
    ),
    "dose_events": (
        "id, event_uid, patient_id, study_id, exam_date, region, ctdivol_mgy, dlp_mgy_cm, k, msv, source, recorded_at",
        f"{key('x')}, '2.25.' || 7000000000 + n, {PATIENT}, {key('s')}, at::date, 'chest', 6.5, 240, 0.014, 3.4, 'rdsr', at",
        "true",
    ),
    "associations": (
        "id, listener, calling_aet, host, opened_at, closed_at, how",
        f"{key('a')}, 'listener-1', 'CT' || mod(n, 4), '10.0.0.1', at, CASE WHEN {DONE} THEN at END, CASE WHEN {DONE} THEN 'released' END",
        "true",
    ),
    "study_associations": ("study_id, association_id, with_images", f"{key('s')}, {key('a')}, true", "true"),
    "performed_steps": (
        "id, sop_uid, status, calling_aet, modality, created_at, updated_at, expected",
        f"{key('m')}, '2.25.' || 8000000000 + n, 'COMPLETED', 'CT' || mod(n, 4), 'CT', at, at, '[]'",
        "true",
    ),
    "performed_step_studies": ("step_id, study_uid", f"{key('m')}, {UID}", "true"),
    "rejections": (
        "id, sop_uid, study_uid, ko_sop_uid, ko_study_id, code, meaning",
        f"{key('k')}, {UID} || '.2.1', {UID}, '2.25.' || 9000000000 + n, {key('s')}, '113001', 'Rejected for Quality Reasons'",
        "mod(n, 1000) = 0",
    ),
    "dose_reports": (
        "instance_id, state, due_at, attempts, events, ended_at",
        f"{key('i')}, CASE kind WHEN 'receiving' THEN 'waiting' ELSE 'read' END, at, 0, 1, CASE WHEN kind <> 'receiving' THEN at END",
        "true",
    ),
    "draft_requests": (
        "id, study_id, department, state, due_at, attempts, revision, section, tokens, draft_id, created_at, ended_at",
        f"{key('q')}, {key('s')}, 'oncology', CASE kind WHEN 'signed' THEN 'drafted' ELSE 'waiting' END, at, 1, "
        f"CASE kind WHEN 'signed' THEN 1 END, '', 90, CASE kind WHEN 'signed' THEN {key('d')} END, at, CASE kind WHEN 'signed' THEN at END",
        f"{WITH_DRAFT} AND mod(n, 5) = 0",
    ),
    "alerts": (
        "id, study_id, revision, draft_id, rule, rules_version, finding, severity, certain, minutes, levels, state, seen_at, due_at, level, "
        "told_by, received_by, received_at, method, read_back",
        f"{key('l')}, {key('s')}, 1, {key('d')}, 'pneumothorax', 1, '气胸', 'urgent', true, 30, 3, "
        "CASE kind WHEN 'signed' THEN 'acknowledged' ELSE 'open' END, at, at, 0, 'dr-a', 'dr-b', at, '电话', true",
        f"{WITH_DRAFT} AND mod(n, 50) = 0",
    ),
    "audit": (
        "at, actor, action, study_id, job_id, detail",
        f"at, 'system', (ARRAY['assemble', 'claimed', 'encode', 'claimed', 'found', 'persist'])[step], {key('s')}, {key('j')}, "
        '\'{"attempt": "1", "seconds": "1.234", "step": "draft"}\'',
        "true",
    ),
}
FURTHER = {"audit": "CROSS JOIN generate_series(1, 6) AS step"}
IMAGE = f"""INSERT INTO instances (id, study_id, series_id, sop_uid, sop_class, transfer_syntax, modality, sha256, size_bytes, path, is_first,
 instance_number, rows, columns, position_mm, orientation, image_type, flags, received_at)
SELECT gen_random_uuid(), study, series, uid || '.2.' || m, '1.2.840.10008.5.1.4.1.1.2', '1.2.840.10008.1.2.1', 'CT', digest, 525825,
 'objects/' || substr(digest, 1, 2) || '/' || digest || '.dcm', true, m, 512, 512, ARRAY[-179.2, -179.2, m], ARRAY[1, 0, 0, 0, 1, 0],
 '["ORIGINAL", "PRIMARY", "AXIAL"]', '[]', at
FROM (SELECT {key("s")} AS study, {key("e")} AS series, {UID} AS uid, m,
 encode(sha256((n || '.' || m)::bytea), 'hex') AS digest, now() - (%(total)s::bigint - n) * interval '{86400 / PER_DAY} seconds' AS at
 FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n CROSS JOIN generate_series(1, {IMAGES}) AS m) AS image"""
OWN = """SELECT c.relname, pg_get_indexdef(i.indexrelid), con.conname, pg_get_constraintdef(con.oid) FROM pg_index i
 JOIN pg_class c ON c.oid = i.indexrelid LEFT JOIN pg_constraint con ON con.conindid = i.indexrelid AND con.contype IN ('u', 'p')
 WHERE i.indrelid = %s::regclass AND NOT i.indisprimary"""


@dataclass(frozen=True, slots=True)
class Filled:
    """What stands in the tables now, and how long making it took."""

    studies: int
    instances: int
    studies_s: float
    instances_s: float


def fill(url: str, studies: int, budget_s: float, told: Told = lambda share, words: None, most_images: int | None = None) -> Filled:
    """Up to `studies` studies (whole patients), then images of the newest ones, as many as `budget_s` allows with their indexes; of `most_images`
    studies at most, of some at least. At the end the tables are vacuumed and analysed, as autovacuum would."""
    begun, total = time.monotonic(), studies - studies % EACH
    with psycopg.connect(url, autocommit=True) as connection:
        for option in OPTIONS:
            connection.execute(f"SET {option}".encode())
        connection.execute("INSERT INTO rule_versions VALUES (1, 'system', 'synthetic') ON CONFLICT DO NOTHING")
        made = _fill_studies(connection, total, begun + budget_s * STUDIES_SHARE, told)
        between = time.monotonic()
        until = between + (begun + budget_s - between) * (1 - INDEX_SHARE)
        images = _fill_images(connection, total, until, made if most_images is None else min(made, most_images), told)
        told(0.95, "VACUUM ANALYZE")
        connection.execute("VACUUM ANALYZE")
    return Filled(made, images, round(between - begun, 1), round(time.monotonic() - between, 1))


def _fill_studies(connection: psycopg.Connection[Any], total: int, until: float, told: Told) -> int:
    """The newest first, until all are there or the time is over; how many."""
    made = 0
    with ExitStack() as indexes:
        for table in FILL:
            indexes.enter_context(unindexed(connection, table))
        while made < total and (not made or time.monotonic() < until):
            some = min(CHUNK, total - made)
            for table in FILL:
                connection.execute(_insert(table), {"total": total, "first": total - made - some + 1, "last": total - made})
            made += some
            told(0.35 * made / total, f"{made:,} studies")
        told(0.4, "indexes of the studies")
    return made


def _insert(table: str) -> bytes:
    columns, values, which = FILL[table]
    return f"INSERT INTO {table} ({columns}) SELECT {values} FROM {ROWS} {FURTHER.get(table, '')} WHERE {which}".encode()


def _fill_images(connection: psycopg.Connection[Any], total: int, until: float, most: int, told: Told) -> int:
    """Images of the newest studies until the time is over; how many."""
    made, begun = 0, time.monotonic()
    with unindexed(connection, "instances"):
        while made < most and (not made or time.monotonic() < until):
            some = min(IMAGES_CHUNK, most - made)
            connection.execute(IMAGE.encode(), {"total": total, "first": total - made - some + 1, "last": total - made})
            made += some
            told(0.5 + 0.3 * min(1.0, (time.monotonic() - begun) / max(until - begun, 1.0)), f"{made * IMAGES:,} images")
        told(0.85, "indexes of the images")
    return made * IMAGES


@contextmanager
def unindexed(connection: psycopg.Connection[Any], table: str) -> Iterator[None]:
    """Without the table's indexes but its primary key while rows are made; all are there again at the end."""
    found = connection.execute(OWN, (table,)).fetchall()
    for index, _, constraint, _ in found:
        parts = (sql.Identifier(table), sql.Identifier(constraint or index))
        statement = "ALTER TABLE {} DROP CONSTRAINT {}" if constraint else "DROP INDEX {1}"
        connection.execute(sql.SQL(statement).format(*parts))
    try:
        yield
    finally:
        for _, definition, constraint, again in found:
            added = f"ALTER TABLE {table} ADD CONSTRAINT {constraint} {again}" if constraint else definition
            connection.execute(added.encode())
