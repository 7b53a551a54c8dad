//! Values of a chart's templates, and the syntax of flags that set them.

pub mod strvals;
