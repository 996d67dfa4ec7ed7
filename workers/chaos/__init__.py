"""Proof by fire: faults at the times of a seeded plan while studies are sent, and what must hold at the end. For our tests and for test stacks."""
