"""What went wrong with the hub of models, in words for the person. No address, no token in them:
an address may be signed."""

from __future__ import annotations

import errno

from pipelines import catalogue
from pipelines.errors import BadInput

KEPT = "What has come so far is kept, and the next try goes on from there."


def in_words(error: Exception, repo: str) -> str:
    """One or two sentences, with what to do about it."""
    from huggingface_hub import errors

    if isinstance(error, BadInput):
        return error.fix
    # The order matters: one is a kind of the other.
    if isinstance(error, errors.GatedRepoError):
        return (
            f"{repo} asks for its terms to be accepted: do that on its page on the hub, sign in on "
            "this machine with `hf auth login`, and download it again."
        )
    if isinstance(error, errors.DisabledRepoError):
        return f"{repo} was taken off the hub by its authors or by the hub."
    if isinstance(error, errors.RepositoryNotFoundError) or _status(error) in (401, 403):
        return (
            f"There is no model {repo} on the hub, or it is private. Check how it is written; for "
            "a private one sign in on this machine with `hf auth login`."
        )
    if isinstance(error, errors.HFValidationError):
        return "Write it as org/name, as the hub does."
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"Downloads are turned off on this machine: HF_HUB_OFFLINE is set. {_here()}"
    if _is_offline(error):
        return f"The hub cannot be reached. Check the network of this machine. {KEPT} {_here()}"
    if _status(error) is not None:
        return f"The hub answers with error {_status(error)}. Try again later. {KEPT}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full. Make room, or set HF_HOME to a larger disk. {KEPT}"
    if isinstance(error, PermissionError):
        return "The folder where models are kept cannot be written; set HF_HOME to another one."
    return f"The download broke off ({type(error).__name__}). {KEPT}"


def _here() -> str:
    """What can be used without a network."""
    here = ", ".join(model.id for model in catalogue.models() if model.present())
    return f"Models of the catalogue that are here: {here}."


def _status(error: Exception) -> int | None:
    return getattr(getattr(error, "response", None), "status_code", None)


def _is_offline(error: Exception) -> bool:
    """Errors of the HTTP client itself, and those of the hub that came from one."""
    chain: BaseException | None = error
    while chain is not None:
        if type(chain).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore"):
            return True
        if isinstance(chain, (ConnectionError, TimeoutError)):
            return True
        chain = chain.__cause__
    return False
