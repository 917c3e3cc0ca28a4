"""Everything that the routes work with, made once a process and passed in."""

from collections.abc import Callable
from dataclasses import dataclass

from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer

from functions.adapters.results import Results
from functions.adapters.session_blobs import UploadSigner
from functions.service.access import AccessMap
from functions.service.corrections import Corrections
from functions.service.judgement import Judgement
from functions.service.recovery import Recovery
from functions.service.replays import Replays
from functions.service.rulesets import Rulesets
from functions.service.sessions import Sessions


@dataclass(slots=True, frozen=True)
class Service:
    """The parts of the service. `results` makes a reader that is bound to one tenant."""

    access: AccessMap
    sessions: Sessions
    judgement: Judgement
    rulesets: Rulesets
    recovery: Recovery
    corrections: Corrections
    replays: Replays
    results: Callable[[str], Results]
    signer: UploadSigner
    idempotency: BasePersistenceLayer
