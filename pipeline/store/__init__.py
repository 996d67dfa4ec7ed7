"""PostgreSQL: the truth. Typed tables, one transaction per step, repositories behind the ports."""
