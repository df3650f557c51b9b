pub(crate) const ALL: &[crate::Part] = &[];
