"""What a trial found: what was struck, what was not and why, how it went, and what does not hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workers.chaos.plan import Fault
from workers.chaos.storm import Struck


@dataclass(frozen=True)
class TrialReport:
    """One trial. `broken`: check → sentences, empty where it holds; `left_out`: faults that could not be made, with the reason; `cpu_s`: of this
    process and of all that it waited for."""

    seed: int
    studies: int
    images: int
    refused: int  # files that were refused or got no answer, and were sent again
    struck: Sequence[Struck]
    left_out: Mapping[Fault, str]
    disk: str
    clock: str
    outcomes: Mapping[str, int]
    restarts: Mapping[str, int]
    broken: Mapping[str, Sequence[str]]
    seconds: float
    cpu_s: float | None = None
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def clean(self) -> bool:
        """True when every check holds."""
        return not any(self.broken.values())

    @property
    def made(self) -> frozenset[Fault]:
        """Faults that were really made."""
        return frozenset(one.strike.fault for one in self.struck if not one.missed)

    def as_json(self) -> dict[str, object]:
        """The keys of `ctreport chaos --json`."""
        struck = [
            {"fault": one.strike.fault, "at_s": one.at_s, "for_s": one.strike.for_s, "hard": one.strike.hard, "missed": one.missed}
            for one in self.struck
        ]
        plain = ("seed", "clean", "studies", "images", "refused", "disk", "clock", "seconds", "cpu_s")
        return {
            **{name: getattr(self, name) for name in plain},
            "outcomes": dict(self.outcomes),
            "restarts": dict(self.restarts),
            "broken": {name: list(said) for name, said in self.broken.items()},
            "left_out": {str(fault): why for fault, why in self.left_out.items()},
            "struck": struck,
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """For a person."""
        cpu = "" if self.cpu_s is None else f", {self.cpu_s:.0f} s of processor"
        head = f"seed {self.seed}: {'clean' if self.clean else 'NOT CLEAN'}, {self.studies} studies, {self.images} images, {self.seconds:.0f} s{cpu}"
        lines = [head, f"  ended: {_listed(self.outcomes)}; sent again: {self.refused} files; restarts: {_listed(self.restarts)}"]
        lines += [f"  disk: {self.disk}", f"  clock: {self.clock}"]
        lines += ["  struck: " + ", ".join(f"{one.strike.fault} at {one.at_s:.0f} s" for one in self.struck if not one.missed)]
        lines += [f"  missed: {one.strike.fault} at {one.at_s:.0f} s ({one.missed})" for one in self.struck if one.missed]
        lines += [f"  not made: {fault}: {why}" for fault, why in self.left_out.items()]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join([*lines, *(f"  BROKEN {name}: {sentence}" for name, said in self.broken.items() for sentence in said)])


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
