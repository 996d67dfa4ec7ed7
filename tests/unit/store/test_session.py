import pytest

from pipeline.errors import BadInput
from pipeline.store.repository import plain
from pipeline.store.session import driver_url


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2"])
def test_every_spelling_becomes_the_psycopg_3_driver(scheme: str) -> None:
    assert driver_url(f"{scheme}://u:p%40@h:1/d").render_as_string(hide_password=False) == "postgresql+psycopg://u:p%40@h:1/d"


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "not a url secret", "", "postgresql://u:secret@h:port/d"])
def test_another_url_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(BadInput) as caught:
        driver_url(url)
    assert "secret" not in str(caught.value)


def test_plain_drops_what_postgresql_refuses() -> None:
    assert plain("a\x00b\udcff张") == "ab?张"
