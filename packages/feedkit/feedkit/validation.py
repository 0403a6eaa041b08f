"""Request rules, which stand in the contracts and are enforced here for every method."""

import protovalidate
from google.protobuf.message import DecodeError, Message

from feedkit.errors import FieldViolation, InvalidArgument

_validator = protovalidate.Validator()


class Undecodable:
    """Stands for a request that is no message of its type, until somebody may raise the error."""

    def __init__(self, error: DecodeError) -> None:
        self.error = error


def check(request: Message | Undecodable) -> None:
    """Raise InvalidArgument, naming every field that breaks a rule of the contract."""
    if isinstance(request, Undecodable):
        raise InvalidArgument.of_field("request", f"must be a valid protobuf message: {request.error}")
    broken = _validator.collect_violations(request)
    if broken:
        violations = [FieldViolation(_path(violation), _rule(violation)) for violation in broken]
        message = "; ".join(f"{field}: {rule}" for field, rule in violations)
        raise InvalidArgument("INVALID_FIELD", message, violations=violations)


def _path(violation: protovalidate.Violation) -> str:
    path = ""
    elements = violation.proto.field.elements if violation.proto.field else ()
    for element in elements:
        path += ("." if path else "") + element.field_name
        if element.subscript is not None:
            path += f"[{element.subscript.value}]"
    return path


def _rule(violation: protovalidate.Violation) -> str:
    # The text may quote the value, control characters and all.
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in violation.proto.message)
