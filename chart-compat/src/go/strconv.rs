//! stub
pub fn quote(s: &[u8]) -> String { format!("{:?}", String::from_utf8_lossy(s)) }
pub fn quote_to_ascii(s: &[u8]) -> String { format!("{:?}", String::from_utf8_lossy(s)) }
pub fn quote_rune(c: char) -> String { format!("'{c}'") }
pub fn can_backquote(s: &str) -> bool { !s.contains('`') }
pub fn is_print(c: char) -> bool { !c.is_control() }
