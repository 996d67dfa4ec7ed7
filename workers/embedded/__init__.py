"""PostgreSQL and Valkey as child processes of one launcher: found, created, started, watched and stopped."""
