"""What a supervisor says and does about rules that change."""

from pipeline.config import IngestConfig
from pipeline.progress import _line
from pipeline.supervisor import Supervisor


def test_refused_rules_are_told_until_good_ones_are_taken_up() -> None:
    lines: list[str] = []
    config = IngestConfig("", "", "", ruleset="a")
    supervisor = Supervisor(config, 1, lambda report: lines.append(_line(report, "", 1.0)))
    supervisor.refuse_rules("ours.yaml:3: not YAML")
    supervisor._step()
    told = supervisor.report.as_dict()
    assert (told["ruleset"], told["refused_rules"]) == ("a", "ours.yaml:3: not YAML")
    assert "changed rules refused" in lines[-1]
    supervisor.switch("b")
    supervisor._step()
    told = supervisor.report.as_dict()
    assert (told["ruleset"], told["refused_rules"]) == ("b", None)
    assert "changed rules refused" not in lines[-1]
