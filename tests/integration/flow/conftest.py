"""The store's migrated database, for the steps that work on it."""

from tests.integration.store.conftest import store, template, url

__all__ = ["store", "template", "url"]
