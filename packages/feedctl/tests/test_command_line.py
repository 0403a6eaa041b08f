"""Numbers on the command line: what nobody can have meant is refused, with the option named."""

import pytest
from click.testing import CliRunner
from feedctl.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["timeline", "rebuild", "--viewer", "9223372036854775808"], "--viewer"),
        (["timeline", "rebuild", "--viewer", "1", "--rate", "nan"], "--rate"),
        (["timeline", "rebuild", "--viewer", "1", "--rate", "inf"], "--rate"),
        (["timeline", "rebuild", "--all", "--after", "9223372036854775808"], "--after"),
        (["user", "suspend", "0"], "ID"),
        (["outbox", "replay", "post", "0"], "ID"),
        (["dlq", "replay", "3"], "PLACE"),
        (["dlq", "replay", "3:-1"], "PLACE"),
        (["dlq", "list", "--since", "yesterday"], "--since"),
        (["user", "purge", "1", "--wait", "nan"], "--wait"),
        (["verify", "--settle", "nan"], "--settle"),
        (["economics", "--followers", "10", "--reads-per-day", "inf"], "--reads-per-day"),
    ],
)
def test_a_number_out_of_all_bounds_is_refused(arguments: list[str], named: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert named in result.output
