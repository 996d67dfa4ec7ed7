"""Who may use the API: this machine, with the token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from pipeline.web.access import check_local, check_token, is_loopback, without_port
from pipeline.web.problems import Refused
from tests.unit.web.fakes import TOKEN, Desk, app_of
from tests.unit.web.test_api import BEARER, DRAFTS, HOST, client

CONTRACT = "/api/v1/openapi.json"


@pytest.mark.parametrize("shown", ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, "Bearer é"])
def test_without_the_right_token_every_path_is_401(shown: str) -> None:
    headers = {b"Authorization": shown.encode("latin-1")} if shown else {}
    caller = TestClient(app_of(Desk()), base_url=f"http://{HOST}", client=(HOST, 1))
    for path in (DRAFTS, f"{DRAFTS}/x/report", "/api/v1/nowhere"):
        answer = caller.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert TOKEN not in answer.text


def test_the_scheme_is_read_in_any_case_and_the_contract_needs_no_token() -> None:
    assert client(Desk(), headers={"Authorization": f"bEARER {TOKEN}"}).get(DRAFTS).status_code == 200
    assert client(Desk(), headers={}).get(CONTRACT).json()["openapi"] == "3.1.0"


def test_where_no_token_is_set_the_api_is_off_and_says_how_to_turn_it_on() -> None:
    answer = client(Desk(), token=None, headers={"Authorization": "Bearer "}).get(DRAFTS)
    assert (answer.status_code, "CTREPORT_WEB_TOKEN" in answer.json()["detail"]) == (503, True)


@pytest.mark.parametrize("peer", ["10.0.0.9", "192.168.1.2", "::ffff:10.0.0.9", "2001:db8::1", "testclient", ""])
def test_another_machine_is_refused_also_with_the_token(peer: str) -> None:
    answer = client(Desk(), peer=peer).get(DRAFTS)
    assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json")
    assert client(Desk(), peer=peer).get(CONTRACT).status_code == 403


@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_a_proxy_on_this_machine_is_refused(name: str) -> None:
    assert client(Desk(), headers=BEARER | {name: "127.0.0.1"}).get(DRAFTS).status_code == 403


@pytest.mark.parametrize(("base", "status"), [("http://localhost:8042", 200), ("http://[::1]:8042", 200), ("http://evil.example", 403)])
def test_a_page_that_names_itself_this_machine_is_refused(base: str, status: int) -> None:
    assert client(Desk(), base=base).get(DRAFTS).status_code == status


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST"])
def test_loopback_is_known_in_every_spelling(host: str) -> None:
    assert is_loopback(host)


@given(st.ip_addresses())
def test_an_address_is_local_exactly_where_it_is_loopback(address: object) -> None:
    assert is_loopback(str(address)) == (str(address).startswith("127.") or str(address) in ("::1",) or "ffff:127." in str(address))


@given(st.text(), st.text(min_size=16))
def test_no_text_but_the_token_passes(shown: str, token: str) -> None:
    if shown.strip() == token:
        return
    with pytest.raises(Refused, match="Bearer"):
        check_token(f"Bearer {shown}", token)


@given(st.text())
def test_whatever_stands_in_host_is_understood_or_refused(host: str) -> None:
    try:
        check_local("127.0.0.1", {"host": host})
    except Refused:
        return
    assert is_loopback(without_port(host.rsplit("@", 1)[-1]))
