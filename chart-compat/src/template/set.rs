//! Lookup of templates by name: the chart's own, overlaid by those that `tpl` texts define.

use rustc_hash::FxHashMap;

use super::ast::Template;
use crate::go::Arena;

/// A chart's templates by name, immutable once built.
#[derive(Default)]
pub struct TemplateSet<'a> {
    by_name: FxHashMap<&'a str, &'a Template>,
}

impl<'a> TemplateSet<'a> {
    /// Adds the templates of one file (`Template.Parse` into a shared set). A blank template never replaces an existing one.
    pub fn add(&mut self, templates: &'a [Template]) {
        for t in templates {
            if t.blank && self.by_name.contains_key(&*t.name) {
                continue;
            }
            self.by_name.insert(&t.name, t);
        }
    }
}

/// The templates in scope during execution: a base set, overlaid by the definitions of the running `tpl` calls.
#[derive(Clone, Copy)]
pub struct Set<'a> {
    base: &'a TemplateSet<'a>,
    overlay: Option<&'a Overlay<'a>>,
}

struct Overlay<'a> {
    own: &'a [&'a Template],
    below: Option<&'a Overlay<'a>>,
}

impl<'a> Set<'a> {
    /// A set without an overlay.
    #[must_use]
    pub fn new(base: &'a TemplateSet<'a>) -> Self {
        Self { base, overlay: None }
    }

    /// The set without its overlay.
    #[must_use]
    pub fn base(self) -> Self {
        Self { base: self.base, overlay: None }
    }

    /// A clone of the set with `templates` added. Blank ones replace nothing.
    #[must_use]
    pub fn with(self, arena: &'a Arena, templates: &'a [Template]) -> Self {
        let own: Vec<&'a Template> =
            templates.iter().filter(|t| !t.blank || self.get(&t.name).is_none()).collect();
        if own.is_empty() {
            return self;
        }
        let own = arena.alloc_slice_copy(&own);
        Self { base: self.base, overlay: Some(arena.alloc(Overlay { own, below: self.overlay })) }
    }

    /// The template named `name`.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a Template> {
        let mut at = self.overlay;
        while let Some(o) = at {
            if let Some(t) = o.own.iter().find(|t| &*t.name == name) {
                return Some(t);
            }
            at = o.below;
        }
        self.base.by_name.get(name).copied()
    }
}
