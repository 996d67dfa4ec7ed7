"""`python -m workers` is `ctreport`."""

from workers.cli import main

main()
