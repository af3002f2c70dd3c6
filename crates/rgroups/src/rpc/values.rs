//! Calls in JGroups' own encoding of values.

use crate::ObjectValue;
use rgroups_core::wire::{Method, MethodCall};

/// The name or the number of a method.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MethodName {
    /// By name.
    Named(String),
    /// By a number that caller and callee have agreed on (`MethodLookup`, `MethodInvoker`).
    Numbered(i16),
}

impl From<&str> for MethodName {
    fn from(name: &str) -> Self {
        MethodName::Named(name.to_owned())
    }
}

impl From<String> for MethodName {
    fn from(name: String) -> Self {
        MethodName::Named(name)
    }
}

impl From<i16> for MethodName {
    fn from(number: i16) -> Self {
        MethodName::Numbered(number)
    }
}

/// A class of Java, as the type of a parameter. Java looks for a method with exactly these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are Java's")]
#[repr(u8)]
pub enum JavaClass {
    Boolean = 1,
    BoxedBoolean = 2,
    Byte = 3,
    BoxedByte = 4,
    Char = 5,
    BoxedChar = 6,
    Double = 7,
    BoxedDouble = 8,
    Float = 9,
    BoxedFloat = 10,
    Int = 11,
    BoxedInt = 12,
    Long = 13,
    BoxedLong = 14,
    Short = 15,
    BoxedShort = 16,
    String = 17,
    ByteArray = 18,
}

/// A method of a JGroups `RpcDispatcher`, and what it is called with.
///
/// ```
/// use rgroups::ObjectValue;
/// use rgroups::rpc::{JavaClass, ValueCall};
///
/// // int add(int a, int b)
/// let add = ValueCall::new("add").arg(2).arg(3);
/// // void log(String text), with null
/// let log = ValueCall::new("log").arg_as(JavaClass::String, ObjectValue::Null);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ValueCall {
    method: MethodName,
    types: Vec<u8>,
    args: Vec<ObjectValue>,
}

impl ValueCall {
    /// A call of this method without arguments, so far.
    pub fn new(method: impl Into<MethodName>) -> Self {
        Self { method: method.into(), types: Vec::new(), args: Vec::new() }
    }

    /// With another argument, of the primitive type where there is one: `int` for
    /// [`ObjectValue::Int`]. Null counts as a string.
    #[must_use]
    pub fn arg(self, value: impl Into<ObjectValue>) -> Self {
        let value = value.into();
        let class = match &value {
            ObjectValue::Bool(_) => JavaClass::Boolean,
            ObjectValue::Byte(_) => JavaClass::Byte,
            ObjectValue::Char(_) => JavaClass::Char,
            ObjectValue::Short(_) => JavaClass::Short,
            ObjectValue::Int(_) => JavaClass::Int,
            ObjectValue::Long(_) => JavaClass::Long,
            ObjectValue::Float(_) => JavaClass::Float,
            ObjectValue::Double(_) => JavaClass::Double,
            ObjectValue::ByteArray(_) => JavaClass::ByteArray,
            // Objects of other classes have no place in the table of types: methods that take them
            // are called by number.
            ObjectValue::Null
            | ObjectValue::Str(_)
            | ObjectValue::JavaSerialized(_)
            | ObjectValue::JGroups(_) => JavaClass::String,
        };
        self.arg_as(class, value)
    }

    /// With another argument for a parameter of this class.
    #[must_use]
    pub fn arg_as(mut self, class: JavaClass, value: impl Into<ObjectValue>) -> Self {
        self.types.push(class as u8);
        self.args.push(value.into());
        self
    }

    pub(super) fn into_wire(self) -> MethodCall {
        let method = match self.method {
            MethodName::Named(name) => Method::Named { name, types: self.types },
            MethodName::Numbered(number) => Method::Numbered(number),
        };
        MethodCall { method, args: self.args.into_iter().map(ObjectValue::into_value).collect() }
    }
}
