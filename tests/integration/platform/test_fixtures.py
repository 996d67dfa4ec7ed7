"""What tests/conftest.py promises to the other tests."""

from __future__ import annotations

import socket

import psycopg
import pytest
import redis


@pytest.mark.parametrize("_round", [1, 2])
def test_each_test_has_a_database_of_its_own(database_url: str, _round: int) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE mine (id int)")


@pytest.mark.parametrize("_round", [1, 2])
def test_each_test_has_an_empty_valkey(redis_url: str, _round: int) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0
        client.set("mine", 1)


@pytest.mark.parametrize("address", [("192.0.2.1", 80), ("2001:db8::1", 80), ("example.invalid", 80)])
def test_a_socket_that_leaves_this_machine_fails_the_test(address: tuple[str, int]) -> None:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    with socket.socket(family) as outside:
        with pytest.raises(AssertionError, match=address[0]):
            outside.connect(address)
        with pytest.raises(AssertionError, match=address[0]):
            outside.connect_ex(address)
