//! Typed arguments and results: what serde and postcard make of them.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn write<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, String> {
    postcard::to_allocvec(value).map(Bytes::from).map_err(|e| e.to_string())
}

/// All of the bytes as one value.
pub(crate) fn read<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes too many", rest.len())),
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_is_an_error() {
        let bytes = write(&(1u8, "x")).expect("written");
        assert_eq!(read::<(u8, String)>(&bytes), Ok((1, "x".to_owned())));
        assert!(read::<u8>(&bytes).is_err());
    }
}
