//! Changed settings as TOML text, and their display.

use std::collections::BTreeMap;

use serde_json::Value;

/// Changed values by key, as TOML text.
pub type Choice = BTreeMap<&'static str, String>;

/// A choice as JSON; numbers stay numbers.
pub fn to_json(choice: &Choice) -> Value {
    let value = |text: &String| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
    choice
        .iter()
        .map(|(key, text)| ((*key).to_owned(), value(text)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// A choice for messages; "automatic settings" if it is empty.
pub fn shown(choice: &Choice) -> String {
    if choice.is_empty() {
        return "automatic".to_owned();
    }
    choice.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_read_well() {
        let choice = Choice::from([("threads", "2".to_owned()), ("waiting", "\"sleep\"".to_owned())]);
        assert_eq!(shown(&choice), "threads = 2, waiting = \"sleep\"");
        assert_eq!(to_json(&choice).to_string(), r#"{"threads":2,"waiting":"sleep"}"#);
        assert_eq!(shown(&Choice::new()), "automatic");
    }
}
