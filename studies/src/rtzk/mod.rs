//! RT-ZooKeeper: recovery of ensembles (paper 000, chapter 5).

pub(crate) mod kafka;
pub(crate) mod recovery;
