//! Compressed numbers, strings and containers (WIRE §2).
