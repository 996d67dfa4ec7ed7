"""What becomes of a draft when the real server, or the way to it, breaks: asked again, passed on to the next rung, never half a report."""

from __future__ import annotations

import pytest

from pipeline.drafting.embedded import EmbeddedDrafter
from pipeline.drafting.generator import Ask
from pipeline.drafting.ladder import Ladder, Rung
from pipeline.drafting.prompt import section_prompt
from pipeline.drafting.schema import FINDINGS, section_schema
from pipeline.drafting.selfcheck import look_over, tokens_of
from pipeline.drafting.served_model import ServedModel
from pipeline.errors import ServiceUnavailable
from pipeline.model import Features
from tests.sglang.conftest import FOLDER, Servers, client, features_of
from tests.sglang.proxy import Treatment, garbled, proxied, truncated
from tests.sglang.rig import Rig
from tests.sglang.test_served import question

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(3600)]


def ask_for(features: Features) -> Ask:
    """The findings of a study."""
    return Ask(FINDINGS, section_prompt(FINDINGS, "体检", len(features.array)), section_schema(FINDINGS), 400)


def test_the_self_check_passes_against_the_server_without_mtp(servers: Servers, model: ServedModel) -> None:
    drafting, plain = client(servers.drafting.url, model), client(servers.plain.url, model, plain=True)
    found = look_over(drafting, lambda: ("the server without MTP", tokens_of(plain)), 0.0)
    assert found.refusal is None
    assert found.differences == 0
    assert look_over(plain, lambda: None, 0.0, alone=True).refusal is None


def test_each_is_refused_in_the_place_of_the_other(servers: Servers, model: ServedModel) -> None:
    assert "drafts nothing" in str(look_over(client(servers.plain.url, model), lambda: None, 0.0).refusal)
    assert "without MTP" in str(look_over(client(servers.drafting.url, model, plain=True), lambda: None, 0.0, alone=True).refusal)


@pytest.mark.parametrize("treatment", [truncated(1500), truncated(40), garbled])
def test_a_spoilt_answer_is_asked_for_again(servers: Servers, model: ServedModel, treatment: Treatment) -> None:
    straight, one = client(servers.drafting.url, model), question(model, 7, 40)
    info = straight.info()
    with proxied(servers.drafting.port, treatment, treatment) as proxy:
        got = client(proxy.url, model).server.ask(one, info)
        assert proxy.connections == 3
    assert got.ids == straight.server.ask(one, info).ids


def test_answers_that_are_always_cut_are_told_as_a_server_that_is_down(servers: Servers, model: ServedModel) -> None:
    info = client(servers.drafting.url, model).info()
    with proxied(servers.drafting.port, *[truncated(700)] * 20) as proxy, pytest.raises(ServiceUnavailable, match="CTREPORT_SGLANG_URL"):
        client(proxy.url, model).server.ask(question(model, 7, 40), info)


def test_a_server_killed_in_mid_answer_is_followed_by_the_next_rung(servers: Servers, model: ServedModel) -> None:
    """Last in this file: the server without MTP does not come back."""
    features, rig = features_of(model, 8), servers.plain
    with proxied(rig.port, kills(rig)) as proxy:
        first = client(proxy.url, model, plain=True)
        embedded = EmbeddedDrafter(FOLDER, None, 600)
        ladder = Ladder([Rung("sglang-plain", first, lambda: None), Rung("embedded", embedded, lambda: None)])
        made = ladder.generate(ask_for(features), features)
    assert made.source.rung == "embedded"
    assert made.text == embedded.generate(ask_for(features), features).text
    assert "sglang-plain" in ladder.standings
    assert ladder.standings["sglang-plain"][1]
    assert not rig.answers()


def kills(rig: Rig) -> Treatment:
    """A treatment that kills the server as soon as the first words of a text came."""

    def treat(_: int, piece: bytes) -> bytes:
        if b"data: {" in piece:
            rig.kill()
        return piece

    return treat
