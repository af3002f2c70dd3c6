//! GMS: group membership.
