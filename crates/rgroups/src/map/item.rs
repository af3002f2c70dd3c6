//! What can be a key or a value.

use crate::ObjectValue;

/// What can be a key or a value of a [`Map`](super::Map): every type of serde, which travels as bytes that members
/// of this toolkit understand, and [`ObjectValue`] itself, which Java understands too.
pub trait Item: Sized {
    /// It as a value.
    ///
    /// # Errors
    /// If it cannot be written; in words.
    fn to_value(&self) -> Result<ObjectValue, String>;

    /// It from a value.
    ///
    /// # Errors
    /// If the value is something else; in words.
    fn from_value(value: ObjectValue) -> Result<Self, String>;
}

impl Item for ObjectValue {
    fn to_value(&self) -> Result<ObjectValue, String> {
        match self {
            ObjectValue::JGroups(_) => Err("an object of JGroups has no place in a map".to_owned()),
            value => Ok(value.clone()),
        }
    }

    fn from_value(value: ObjectValue) -> Result<Self, String> {
        Ok(value)
    }
}

#[cfg(feature = "rpc")]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Item for T {
    fn to_value(&self) -> Result<ObjectValue, String> {
        crate::rpc::typed::write(self).map(ObjectValue::ByteArray)
    }

    fn from_value(value: ObjectValue) -> Result<Self, String> {
        match value {
            ObjectValue::ByteArray(bytes) => crate::rpc::typed::read(&bytes),
            other => Err(format!("{other:?} is a value of JGroups, and no typed one")),
        }
    }
}
