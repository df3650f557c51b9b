//! Why a study cannot be played.

use std::path::PathBuf;

/// Why a study cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A size of a `study.toml`.
    #[error("size: {0}; expected sets and seconds")]
    Size(String),
    /// A `study.toml`.
    #[error("{}: {why}", file.display())]
    File {
        /// Its path.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A domain that not even a whole core can serve.
    #[error("no interface serves a generated domain: it needs more than a core")]
    NoInterface,
    /// This machine cannot be measured.
    #[error("nothing was measured; this machine lacks: {0}")]
    Lacks(String),
    /// Something failed while it was.
    #[error("while this machine was measured: {0}")]
    Machine(String),
    /// A table or a figure.
    #[error("cannot write {}: {why}", file.display())]
    Write {
        /// Its path.
        file: PathBuf,
        /// Why not.
        why: std::io::Error,
    },
    /// A measurement.
    #[error(transparent)]
    Measure(#[from] giusto_measure::Error),
    /// Real servers, or the harness that kills them.
    #[error("the ensembles cannot be measured: {0}; expected java, python3 and a built server (mvn -f coordination/pom.xml \
             -pl server package)")]
    Ensemble(String),
    /// The mathematics refuses.
    #[error(transparent)]
    Analysis(#[from] giusto_analysis::Error),
    /// The simulator refuses.
    #[error(transparent)]
    Simulator(#[from] giusto_simulator::Error),
    /// Claims or tables.
    #[error(transparent)]
    Claims(#[from] giusto_verify::study::Error),
}

impl Error {
    pub(crate) fn machine(why: impl std::fmt::Display) -> Error {
        Error::Machine(why.to_string())
    }
}
