//! FD_SOCK2: each member keeps a connection to its right-hand neighbour; when it breaks, that
//! neighbour is suspected.
