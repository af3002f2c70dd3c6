//! FRAG2: cuts large messages and puts them together again.
