//! Texts read and written. Expectations were recorded from Go 1.26's `encoding/json`.

use super::*;

#[test]
fn escapes_as_go_does() {
    let data = Data::from("<a>\u{2028}\u{1}\n\"");
    assert_eq!(to_string(&data).unwrap(), r#""\u003ca\u003e\u2028\u0001\n\"""#);
    assert_eq!(to_string_raw(&data).unwrap(), r#""<a>\u2028\u0001\n\"""#);
}
