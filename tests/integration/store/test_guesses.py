"""A guess is marked, listed, and stands once a person has confirmed or corrected it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from pipeline.errors import BadInput
from pipeline.model import Header, Patient
from pipeline.store import guesses
from pipeline.store.session import PgStore
from tests.integration.store import rows

GUESSED = Patient("P-1", "", rows.NAME, True, None, "M", "GB18030")
SURE = Patient("P-1", "", "张^晓东", False, None, "M", "ISO_IR 192")
BY = "李医生"


def guessed(study: str) -> Header:
    return rows.header(1, study, patient=GUESSED)


def test_a_guessed_name_is_listed_with_its_studies_until_it_is_confirmed(store: PgStore) -> None:
    rows.send(store, guessed("1.2.3"), guessed("1.2.4"), rows.header(1, "1.2.5", patient_id="P-2"))
    (one,) = guesses.guesses(store)
    assert (one["what"], one["patient_name"], one["charset"], one["patient_id"]) == ("name", rows.NAME, "GB18030", "P-1")
    assert one["study_uids"] == ["1.2.3", "1.2.4"]
    assert one["file"].endswith(".dcm")
    assert guesses.waiting(store) == 1
    done = guesses.confirm(store, one["row"], BY)
    assert (done["after"], done["changed"]) == (rows.NAME, False)
    assert (guesses.guesses(store), guesses.waiting(store)) == ([], 0)
    patient = rows.one(store, "SELECT name_guess, name_confirmed_by, name_confirmed_at IS NOT NULL AS at FROM patients WHERE patient_id = 'P-1'")
    assert patient == {"name_guess": True, "name_confirmed_by": BY, "at": True}


def test_a_correction_is_audited_for_each_study_without_the_name(store: PgStore) -> None:
    rows.send(store, guessed("1.2.3"), guessed("1.2.4"))
    (one,) = guesses.guesses(store)
    done = guesses.confirm(store, one["row"], BY, "张^晓东")
    assert (done["before"], done["after"], done["changed"]) == (rows.NAME, "张^晓东", True)
    trail = rows.one(store, "SELECT count(*) AS n, min(actor) AS actor, min(detail::text) AS said FROM audit WHERE action = 'identity_confirmed'")
    assert (trail["n"], trail["actor"]) == (2, BY)
    assert "张" not in trail["said"]
    assert '"changed": "true"' in trail["said"]


def test_the_view_that_radiologists_read_marks_a_guessed_name(store: PgStore) -> None:
    rows.drafted(store)
    rows.one(store, "UPDATE patients SET name_guess = true RETURNING 1")
    assert rows.one(store, "SELECT patient_name_guess FROM finished_reports") == {"patient_name_guess": True}
    guesses.confirm(store, guesses.guesses(store)[0]["row"], BY)
    assert rows.one(store, "SELECT patient_name_guess FROM finished_reports") == {"patient_name_guess": False}


def test_a_rightly_labelled_name_takes_the_place_of_a_guess_and_of_nothing_else(store: PgStore) -> None:
    rows.send(store, guessed("1.2.3"), rows.header(1, "1.2.4", patient=SURE))
    assert rows.one(store, "SELECT name, name_guess FROM patients") == {"name": SURE.name, "name_guess": False}
    rows.send(store, guessed("1.2.5"))
    assert rows.one(store, "SELECT name, name_guess FROM patients") == {"name": SURE.name, "name_guess": False}


def test_a_confirmed_name_stands_against_what_comes_later(store: PgStore) -> None:
    rows.send(store, guessed("1.2.3"))
    guesses.confirm(store, guesses.guesses(store)[0]["row"], BY, "章^小东")
    rows.send(store, rows.header(1, "1.2.4", patient=SURE))
    assert rows.one(store, "SELECT name FROM patients") == {"name": "章^小东"}


def test_guessed_texts_of_a_study_are_listed_and_confirmed(store: PgStore) -> None:
    rows.send(store, rows.header(text_guess=True))
    (one,) = guesses.guesses(store)
    assert (one["what"], one["description"], one["indication"], one["study_uids"]) == ("text", "Chest", "咳嗽", ["1.2.3"])
    with pytest.raises(BadInput, match="--name is for patients"):
        guesses.confirm(store, one["row"], BY, "x")
    assert guesses.confirm(store, one["row"], BY)["what"] == "text"
    assert guesses.waiting(store) == 0


def test_what_cannot_be_confirmed_says_why(store: PgStore) -> None:
    rows.send(store, rows.header())
    sure = str(rows.one(store, "SELECT id FROM patients")["id"])
    study = str(rows.one(store, "SELECT id FROM studies")["id"])
    for row, by, name, why in (
        (sure, BY, None, "no guess"),
        (study, BY, None, "no guess"),
        (str(uuid4()), BY, None, "no patient and no study"),
        ("x", BY, None, "no row id"),
        (sure, " ", None, "--by"),
    ):
        with pytest.raises(BadInput, match=why):
            guesses.confirm(store, row, by, name)
    rows.send(store, rows.header(2, "1.2.9", patient=replace(GUESSED, patient_id="P-9")))
    with pytest.raises(BadInput, match="empty"):
        guesses.confirm(store, guesses.guesses(store)[0]["row"], BY, " ")


def test_the_instance_row_says_what_the_dose_step_needs(store: PgStore) -> None:
    header = rows.header()
    rows.send(store, replace(header, instance=replace(header.instance, content="dose-report")))
    assert rows.one(store, "SELECT content, flags FROM instances") == {"content": "dose-report", "flags": []}


def test_the_command_lists_and_confirms(store: PgStore, url: str) -> None:
    rows.send(store, guessed("1.2.3"))
    (one,) = ctreport(url, "identity", "--guesses")["guesses"]
    assert (one["patient_name"], one["study_uids"]) == (rows.NAME, ["1.2.3"])
    done = ctreport(url, "identity", "--confirm", one["row"], "--name", "张^晓东", "--by", BY)
    assert (done["after"], done["by"]) == ("张^晓东", BY)
    assert ctreport(url, "status")["guesses"] == 0


def ctreport(url: str, *arguments: str) -> dict[str, Any]:
    """What a command answers as JSON on this database."""
    services = {"CTREPORT_DATABASE_URL": url, "CTREPORT_REDIS_URL": "redis://127.0.0.1:1"}
    ran = subprocess.run(
        [sys.executable, "-m", "workers", *arguments, "--json", "-"], env=os.environ | services, capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer
