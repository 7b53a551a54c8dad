//! Go's `text/template`: templates are parsed once and executed on arena values.
//!
//! Owns the language, its built-in functions and its error texts. Knows neither charts nor the functions of Helm and sprig:
//! callers pass them as a [`Funcs`] table.

mod ast;
mod builtins;
mod compare;
mod diagnostic;
mod error;
mod error_trace;
mod eval;
mod exec;
mod func;
mod lex;
mod limits;
mod number;
mod origin;
mod outline;
mod parse;
mod set;
mod site;

pub use ast::Template;
pub use builtins::BUILTINS;
pub use compare::{equal, less};
pub use diagnostic::{Diagnostic, DiagnosticKind};
pub use error::{Error, Frame, Source, Used};
pub use exec::Exec;
pub use func::{Func, Funcs, Type};
pub use limits::Limits;
pub use outline::{Expr, Outline, Pipeline};
pub use parse::{TPL, UNNAMED, named, parse, parse_within};
pub use set::{Set, TemplateSet};
