//! TCP streams: handshake, length-prefixed frames, the graceful-close marker (WIRE §5.3), and the
//! content of FD_SOCK2 frames (§12.1).
