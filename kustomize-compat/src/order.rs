//! The order of the output.
//!
//! Owns `sortOptions`, and the order in which kustomize sorts by default.

use std::collections::HashMap;

use crate::error::Error;
use crate::kustomization::SortOptions;
use crate::resource::{FIRST, Id, LAST, Objects};
use crate::schema::Schemas;

impl SortOptions {
    /// The order by kind that is the default of the command line.
    #[must_use]
    pub fn by_kind() -> Self {
        Self { order: "legacy".to_owned(), legacy: None }
    }

    fn check(&self) -> Result<(), Error> {
        if !matches!(self.order.as_str(), "fifo" | "legacy") {
            return Err(Error::text("the field 'sortOptions.order' must be one of [fifo, legacy]"));
        }
        if self.order == "fifo" && self.legacy.is_some() {
            return Err(Error::text(
                "the field 'sortOptions.legacySortOptions' is set but the selected sort order is 'fifo', not 'legacy'",
            ));
        }
        Ok(())
    }

    /// The ranks of kinds: negative before all others, positive after them.
    fn ranks(&self) -> HashMap<String, i64> {
        let owned = |list: &[&str]| list.iter().map(|kind| (*kind).to_owned()).collect();
        let (first, last) = self.legacy.clone().unwrap_or_else(|| (owned(&FIRST), owned(&LAST)));
        let count = i64::try_from(first.len()).unwrap_or(i64::MAX);
        first.into_iter().zip(-count..).chain(last.into_iter().zip(1..)).collect()
    }
}

/// Sorts objects.
///
/// # Errors
/// Options that are not valid, or two objects of one identity.
pub fn sort(objects: &mut Objects, options: &SortOptions, schemas: &Schemas) -> Result<(), Error> {
    options.check()?;
    if options.order != "legacy" {
        return Ok(());
    }
    let ranks = options.ranks();
    objects.items_mut().sort_by_cached_key(|object| key(&object.id(schemas), &ranks));
    objects.check_unique(schemas).map_err(|e| e.within("SortOrderTransformer: Failed to append to resources"))
}

/// What objects are compared by. Namespaces of the core group stand before others.
fn key(id: &Id, ranks: &HashMap<String, i64>) -> (i64, bool, String, String) {
    let rank = ranks.get(&id.gvk.kind).copied().unwrap_or(0);
    // Where Namespaces have no rank of their own, they stand among others by their text.
    let core = rank != 0 && id.gvk.kind == "Namespace" && id.gvk.group.is_empty();
    let or = |text: &str, none: &str| if text.is_empty() { none.to_owned() } else { text.to_owned() };
    let text = format!("{}|{}", or(&id.namespace, "~X"), or(&id.name, "~N"));
    (rank, !core, id.gvk.sort_text(), text)
}
