//! Discovery: finds the members of a group before and after joining it.
