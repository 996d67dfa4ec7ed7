"""Alembic migrations of the schema in pipeline/store/tables."""
