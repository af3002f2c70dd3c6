//! The top layer: where calls of the application enter and wait their turn.
