//! MERGE3: notices that several views of one group exist.
