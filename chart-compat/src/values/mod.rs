//! Values: what a chart's templates are rendered with, and how users spell them.

pub mod strvals;
