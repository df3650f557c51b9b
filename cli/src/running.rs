//! What is asked of the giusto that runs on this host.

use crate::failure::Failure;
use giusto_daemon::{ask, Answer, Request, Status};

/// One look.
pub(crate) fn look() -> Result<Status, Failure> {
    match ask(&Request::Status)? {
        Answer::Status(status) => Ok(*status),
        other => Err(unexpected(other)),
    }
}

pub(crate) fn unexpected(answer: Answer) -> Failure {
    match answer {
        Answer::Error(refused) => Failure::refused(refused),
        _ => Failure::running("the running giusto answered something else than was asked; is it another release?"),
    }
}
