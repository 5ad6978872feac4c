//! Values as JSON, field by field. Derive macros are shared libraries, which a statically linked build cannot load.

use serde_json::Value;

pub trait Json: Sized {
    fn to_json(&self) -> Value;

    /// An error says what is wrong.
    fn from_json(value: Value) -> Result<Self, String>;
}

/// Implements `Json` for a struct as an object with a member for each field.
macro_rules! record {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::json::Json for $name {
            fn to_json(&self) -> serde_json::Value {
                serde_json::json!({ $(stringify!($field): self.$field.to_json()),* })
            }

            fn from_json(mut value: serde_json::Value) -> Result<Self, String> {
                Ok($name { $($field: $crate::json::field(&mut value, stringify!($field))?),* })
            }
        }
    };
}
pub(crate) use record;

/// Takes a member out of an object; one that is missing is null.
pub fn field<T: Json>(object: &mut Value, name: &str) -> Result<T, String> {
    let value = object.get_mut(name).map_or(Value::Null, Value::take);
    T::from_json(value).map_err(|error| format!("{name}: {error}"))
}

macro_rules! scalar {
    ($($type:ty, $as:ident, $what:literal;)*) => {$(
        impl Json for $type {
            fn to_json(&self) -> Value {
                Value::from(*self)
            }

            fn from_json(value: Value) -> Result<Self, String> {
                value.$as().and_then(|it| it.try_into().ok()).ok_or_else(|| concat!("not ", $what).to_owned())
            }
        }
    )*};
}

scalar! {
    bool, as_bool, "a truth value";
    u32, as_u64, "a number from 0 to 4294967295";
    u64, as_u64, "a number from 0";
    i32, as_i64, "a number";
}

impl Json for String {
    fn to_json(&self) -> Value {
        Value::from(&**self)
    }

    fn from_json(value: Value) -> Result<Self, String> {
        if let Value::String(text) = value { Ok(text) } else { Err("not a text".into()) }
    }
}

impl<T: Json> Json for Option<T> {
    fn to_json(&self) -> Value {
        self.as_ref().map_or(Value::Null, Json::to_json)
    }

    fn from_json(value: Value) -> Result<Self, String> {
        if value.is_null() { Ok(None) } else { T::from_json(value).map(Some) }
    }
}

impl<T: Json> Json for Vec<T> {
    fn to_json(&self) -> Value {
        self.iter().map(Json::to_json).collect()
    }

    fn from_json(value: Value) -> Result<Self, String> {
        let Value::Array(all) = value else { return Err("not a list".into()) };
        all.into_iter().map(T::from_json).collect()
    }
}
