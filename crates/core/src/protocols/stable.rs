//! STABLE: agrees on what everybody has delivered, so that it can be purged.
