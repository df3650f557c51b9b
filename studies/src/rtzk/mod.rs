//! RT-ZooKeeper: recovery of ensembles [LiH21, chapter 5].

pub(crate) mod kafka;
pub(crate) mod recovery;
