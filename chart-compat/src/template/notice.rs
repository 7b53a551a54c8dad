//! What a lenient render noticed on its way: for lint, which wants to see more than the first mistake.

use super::error::Frame;
use super::exec::Exec;
use crate::go::{Value, fmt};

/// How many notices one render keeps.
const MAX_NOTICES: usize = 10_000;

/// Something noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Where.
    pub frame: Frame,
    /// What.
    pub kind: NoticeKind,
}

/// What was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// A required value is missing; with the chart's message.
    Missing(String),
    /// A required value is an empty text; with the chart's message.
    Empty(String),
    /// The chart called `fail`; with its message.
    Failed(String),
    /// Nothing was printed for a value that is not there.
    NoValue,
    /// A text or a number with an exponent was printed.
    Printed(String),
}

impl<'a> Exec<'a> {
    /// Keeps a notice of what happens at the present position, if the render is lenient, and tells whether it is.
    pub fn notice(&mut self, kind: NoticeKind) -> bool {
        let frame = match &self.notices {
            None => return false,
            Some(notices) if notices.len() >= MAX_NOTICES => return true,
            Some(_) => self.frame(),
        };
        if let Some(notices) = &mut self.notices {
            notices.push(Notice { frame, kind });
        }
        true
    }

    /// Keeps a notice of a value that is printed, where it is one of those that surprise.
    #[cold]
    pub(super) fn notice_print(&mut self, value: Value<'a>) {
        let text = match value {
            v if v.is_nil() => {
                self.notice(NoticeKind::NoValue);
                return;
            }
            Value::Str(text) if text.len() < 64 => String::from_utf8_lossy(text).into_owned(),
            Value::Float(_) => String::from_utf8_lossy(&fmt::sprint(value)).into_owned(),
            _ => return,
        };
        let number = matches!(value, Value::Float(_));
        if !number || text.contains('e') {
            self.notice(NoticeKind::Printed(text));
        }
    }
}
