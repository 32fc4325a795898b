//! Just enough JSON to read what cargo prints about itself, and what a benchmark has left.
//!
//! A dependency would do this better and would be most of what there is to compile before the gate can start.

/// A JSON value. Members keep their order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// Reads one value; anything but white space after it is an error.
    pub(crate) fn parse(text: &str) -> Result<Value, String> {
        let mut reader = Reader { bytes: text.as_bytes(), at: 0 };
        let value = reader.value()?;
        match reader.peek() {
            None => Ok(value),
            Some(_) => Err(reader.error("the end")),
        }
    }

    /// The member `name`, or `Null`: absent and null are the same to us.
    pub(crate) fn member(&self, name: &str) -> &Value {
        self.members().iter().find(|(key, _)| key == name).map_or(&Value::Null, |(_, value)| value)
    }

    pub(crate) fn members(&self) -> &[(String, Value)] {
        if let Value::Object(members) = self { members } else { &[] }
    }

    pub(crate) fn items(&self) -> &[Value] {
        if let Value::List(items) = self { items } else { &[] }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        if let Value::Number(number) = self { Some(*number) } else { None }
    }
}

/// `text` as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => quoted += &format!("\\u{:04x}", control as u32),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn error(&self, wanted: &str) -> String {
        format!("malformed JSON: expected {wanted} at byte {}", self.at)
    }

    /// The next byte that is not white space, without taking it.
    fn peek(&mut self) -> Option<u8> {
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Result<(), String> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            _ => Err(self.error(&format!("`{}`", byte as char))),
        }
    }

    fn value(&mut self) -> Result<Value, String> {
        match self.peek() {
            Some(b'{') => self.sequence(b'{', b'}', Self::pair).map(Value::Object),
            Some(b'[') => self.sequence(b'[', b']', Self::value).map(Value::List),
            Some(b'"') => self.string().map(Value::Text),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => self.number(),
        }
    }

    fn sequence<T>(
        &mut self,
        open: u8,
        close: u8,
        item: fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        self.take(open)?;
        let mut items = Vec::new();
        while self.peek() != Some(close) {
            if !items.is_empty() {
                self.take(b',')?;
            }
            items.push(item(self)?);
        }
        self.take(close)?;
        Ok(items)
    }

    fn pair(&mut self) -> Result<(String, Value), String> {
        self.peek();
        let key = self.string()?;
        self.take(b':')?;
        Ok((key, self.value()?))
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, String> {
        if !self.bytes[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().take_while(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte)).count();
        let text = std::str::from_utf8(&rest[..length]).expect("ASCII");
        let number = text.parse().map_err(|_| self.error("a value"))?;
        self.at += length;
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<String, String> {
        self.take(b'"')?;
        let mut text = Vec::new();
        loop {
            let byte = *self.bytes.get(self.at).ok_or_else(|| self.error("the end of a string"))?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(text).map_err(|_| self.error("UTF-8")),
                b'\\' => {
                    let character = self.escape()?;
                    text.extend(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => text.push(byte),
            }
        }
    }

    fn escape(&mut self) -> Result<char, String> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.error("an escape"))?;
        self.at += 1;
        Ok(match byte {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'u' => self.unicode_escape()?,
            other => other as char,
        })
    }

    /// Four hex digits. Half of a surrogate pair becomes U+FFFD: nothing we read depends on such text.
    fn unicode_escape(&mut self) -> Result<char, String> {
        let digits = self.bytes.get(self.at..self.at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.error("four hex digits"))?;
        self.at += 4;
        Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_cargo_prints() {
        let text = r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"stress"},
            "profile":{"opt_level":"0","debuginfo":2,"test":true},"executable":"/a \"b\"\u0041\n","x":null}"#;
        let value = Value::parse(text).unwrap();
        assert_eq!(value.member("reason").text(), Some("compiler-artifact"));
        assert_eq!(value.member("target").member("kind").items(), [Value::Text("test".to_owned())]);
        assert_eq!(value.member("profile").member("test"), &Value::Bool(true));
        assert_eq!(value.member("profile").member("debuginfo"), &Value::Number(2.0));
        assert_eq!(value.member("executable").text(), Some("/a \"b\"A\n"));
        assert_eq!(value.member("x"), value.member("absent"));
    }

    #[test]
    fn empty_lists_objects_and_negative_numbers_are_values() {
        assert_eq!(Value::parse(" [ ] ").unwrap(), Value::List(Vec::new()));
        assert_eq!(Value::parse("{}").unwrap(), Value::Object(Vec::new()));
        assert_eq!(Value::parse("-1.5e3").unwrap(), Value::Number(-1500.0));
    }

    #[test]
    fn malformed_text_is_an_error_and_not_a_panic() {
        for text in ["", "{", "[1", "[1 2]", "{\"a\"}", "\"open", "tru", "1 2", "\"\\u12\"", "{\"a\":}", "\\"]
        {
            assert!(Value::parse(text).is_err(), "{text}");
        }
    }
}
