//! Numbers and quotes. Expectations were recorded from Go 1.26.

use super::*;

#[test]
fn formats_floats_as_go_does() {
    for (value, text) in
        [(1e6, "1e+06"), (123_456.0, "123456"), (1e-5, "1e-05"), (0.0001, "0.0001"), (-0.0, "-0")]
    {
        assert_eq!(format_float(value), text);
    }
}
