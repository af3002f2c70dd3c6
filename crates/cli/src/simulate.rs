//! `sim`: clusters from one seed.

use crate::args::SimArgs;
use crate::failure::Failure;

pub(crate) fn run(_a: &SimArgs, _json: bool) -> Result<u8, Failure> {
    Err(Failure::run("soon"))
}
