//! How much work a build has done, in steps.
//!
//! Owns the bound: lists that are merged by key, objects that replacements, patches and vars look at, and candidates of references take a
//! time that grows with the product of two numbers, each of which a small file may make large. The count belongs to the thread of the
//! build, as that of [`growth`](super::growth). There is no clock in this crate.

use std::cell::Cell;

use crate::error::Error;

/// The most steps of a build, with all builds within it. A step is a comparison, a field that is visited, or a part of an identity:
/// 9 to 130 ns in a release build, so that the bound is some seconds. A thousand replacements or patches on a thousand objects take less.
pub const MAX_STEPS: usize = 100_000_000;

/// Bytes of a text that count as a step where it is read as YAML or written.
const BYTES_OF_A_STEP: usize = 8;

/// Memory of an object, in bytes, that counts as a step where all of it is copied or compared.
const MEMORY_OF_A_STEP: usize = 64;

thread_local! {
    /// The steps of the build on this thread; `None`: there is none.
    static DONE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// A build on this thread, until it is dropped, or several that share one bound: a build within another counts for it.
#[must_use]
pub struct Steps {
    is_outermost: bool,
}

impl Steps {
    /// Begins a build.
    pub fn begin() -> Self {
        let is_outermost = DONE.get().is_none();
        if is_outermost {
            DONE.set(Some(0));
        }
        Self { is_outermost }
    }

    /// The steps so far.
    #[must_use]
    pub fn done(&self) -> usize {
        DONE.get().unwrap_or_default()
    }

    /// Whether the bound is exceeded: all further work then fails.
    #[must_use]
    pub fn exceeded(&self) -> bool {
        self.done() > MAX_STEPS
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.is_outermost {
            DONE.set(None);
        }
    }
}

/// Counts steps before they are done.
///
/// # Errors
/// The build takes too many.
pub(crate) fn count(steps: usize) -> Result<(), Error> {
    note(steps);
    match DONE.get() {
        Some(done) if done > MAX_STEPS => Err(Error::Text(format!(
            "the kustomization takes more than {MAX_STEPS} steps: it needs shorter lists, or fewer patches, replacements, vars or objects"
        ))),
        _ => Ok(()),
    }
}

/// Counts steps where nothing can fail: the next [`count`] does.
pub(crate) fn note(steps: usize) {
    if let Some(done) = DONE.get() {
        DONE.set(Some(done.saturating_add(steps)));
    }
}

/// The steps of a text that is read or written.
pub(crate) fn of_text(text: &str) -> usize {
    text.len() / BYTES_OF_A_STEP
}

/// The steps of an object, whose memory this is, that is copied.
pub(crate) fn of_memory(bytes: usize) -> usize {
    bytes / MEMORY_OF_A_STEP
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{json6902, merge_into_selected, strategic_merge};
    use crate::refs::vars;
    use crate::resource::{Gvk, Objects, Resource, read};
    use crate::schema::Schemas;
    use crate::selector::Selector;
    use crate::transform::replacements::{Replacement, Source, Target};

    #[test]
    fn builds_within_a_build_count_for_it() {
        assert!(count(usize::MAX).is_ok(), "nothing is built");
        let outer = Steps::begin();
        assert!(count(MAX_STEPS - 1).is_ok());
        {
            let inner = Steps::begin();
            assert!(count(1).is_ok() && !inner.exceeded());
            note(1);
            assert!(inner.exceeded());
        }
        assert!(outer.exceeded() && count(0).is_err());
        drop(outer);
        let next = Steps::begin();
        assert!(count(1).is_ok() && !next.exceeded());
    }

    /// The steps of some work.
    fn steps_of(work: impl FnOnce() -> Result<(), Error>) -> usize {
        let steps = Steps::begin();
        work().unwrap();
        steps.done()
    }

    /// A pod whose containers have these names, and further fields.
    fn pod(names: impl Iterator<Item = usize>, fields: &str) -> Resource {
        let containers: Vec<String> = names.map(|n| format!("{{name: c{n}, {fields}}}")).collect();
        let list = containers.join(", ");
        let text =
            format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{list}]}}\n");
        read(&text).unwrap().swap_remove(0)
    }

    #[test]
    fn long_lists_are_merged_by_one_key_in_linear_time() {
        let merge = |count: usize, patch: usize| {
            let (object, patch) = (pod(0..count, "image: a"), pod((0..patch).rev(), "tty: true"));
            steps_of(|| {
                let merged = strategic_merge::merge(&object.node, &patch.node, &Schemas::default())?.unwrap();
                let list = merged.get("spec").and_then(|spec| spec.get("containers")).unwrap();
                assert_eq!(list.content.len(), count);
                assert!(list.content[0].get("tty").is_some());
                Ok(())
            })
        };
        for patch in [1, 100] {
            let (few, many) = (merge(100, patch), merge(1_000, patch * 10));
            assert!(many < 11 * few, "{few} steps, {many} of ten times as many");
        }
    }

    /// As many objects.
    fn objects(count: usize, one: fn(usize) -> String) -> Objects {
        Objects::from(read(&(0..count).map(one).collect::<String>()).unwrap())
    }

    fn maps(count: usize) -> Objects {
        objects(count, |n| {
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{n}}}\ndata: {{a: b}}\n")
        })
    }

    fn same_name(count: usize) -> Objects {
        objects(count, |n| format!("---\napiVersion: v1\nkind: K{n}\nmetadata: {{name: m}}\n"))
    }

    #[test]
    fn products_are_counted() {
        let schemas = Schemas::default();
        let selector = |name: &str| Selector { name: name.to_owned(), ..Selector::default() };
        let replacement = Replacement {
            source: Some(Source {
                gvk: Gvk::default(),
                name: "m1".to_owned(),
                namespace: String::new(),
                field_path: "data.a".to_owned(),
                options: None,
            }),
            targets: Some(vec![Target { select: Some(selector("m2")), ..Target::default() }]),
            ..Replacement::default()
        };
        let var = |n: usize| {
            let data = format!("{{name: v{n}, objref: {{apiVersion: v1, kind: ConfigMap, name: m}}}}");
            crate::kustomization::var(&chart_compat::yaml::from_slice(data.as_bytes()).unwrap())
        };
        let ports = (0..100).map(|n| format!("{{port: {n}, protocol: TCP}}")).collect::<Vec<_>>().join(", ");
        let service = read(&format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: s}}\nspec: {{ports: [{ports}]}}\n"
        ))
        .unwrap()
        .swap_remove(0);
        let add = r#"{"op":"add","path":"/l/0","value":1}"#;
        let patch = json6902::JsonPatch::parse(&format!("[{}]", [add; 200].join(","))).unwrap();
        let mut list: chart_compat::data::Data = chart_compat::yaml::from_slice(b"l: []").unwrap();
        type Work<'w> = &'w mut dyn FnMut() -> Result<(), Error>;
        let table: [(&str, usize, Work<'_>); 5] = [
            ("replacements", 50 * 100, &mut || {
                let mut objects = maps(100);
                (0..50).try_for_each(|_| replacement.apply(&mut objects, &schemas).map(drop))
            }),
            ("patches", 50 * 100, &mut || {
                let mut objects = maps(100);
                let patch = &read("kind: ConfigMap\nmetadata: {name: x}\n").unwrap()[0];
                (0..50).try_for_each(|_| {
                    merge_into_selected(&mut objects, &selector("none"), patch, &schemas).map(drop)
                })
            }),
            ("vars of one name", 50 * 100, &mut || {
                vars::mark(&mut same_name(100), &(0..50).map(var).collect::<Vec<_>>(), &schemas)
            }),
            ("lists of two keys", 100 * 100, &mut || {
                strategic_merge::merge(&service.node, &service.node, &schemas).map(drop)
            }),
            ("items that move", 200 * 200 / 64, &mut || patch.apply(&mut list)),
        ];
        for (what, least, work) in table {
            let found = steps_of(&mut *work);
            assert!(found >= least, "{what}: {found} steps");
            let _steps = Steps::begin();
            note(MAX_STEPS - least / 2);
            let failed = work().unwrap_err();
            assert!(failed.to_string().contains("more than 100000000 steps"), "{what}: {failed}");
        }
    }
}
