//! `sim`: clusters from one seed.
