//! What laying tables over each other gave, kept for the next render of the same chart: from one render to the next most of a
//! user's values stay as they are, and a chart's defaults always do.
//!
//! Owns those results and the proof that they still hold: the defaults are the same map, what lies over them is alike. Knows nothing
//! of how tables are laid.

use rustc_hash::FxHashMap;

use super::Warn;
use crate::data::Map;

/// What is kept of one table of defaults, for different tables over it.
const KEPT: usize = 4;

/// How many renders what nobody asks for stays.
const STAYS: u64 = 8;

/// The results of earlier renders.
#[derive(Default)]
pub(crate) struct Laid {
    /// By the address of the table below, and whether nulls are kept.
    tables: FxHashMap<(usize, bool), Vec<Kept>>,
    /// Tables without their nulls, by their address.
    stripped: FxHashMap<usize, Stripped>,
    /// The number of the render.
    now: u64,
}

struct Kept {
    over: Map,
    /// Held, so that nothing else can come to lie at its address.
    under: Map,
    gives: Map,
    /// Warnings, and the way to the table that they name.
    told: Option<(String, Vec<String>)>,
    used: u64,
}

struct Stripped {
    /// Held as above.
    from: Map,
    to: Map,
    used: u64,
}

impl Laid {
    /// Begins a render: what none of the last ones asked for goes.
    pub(crate) fn begin(&mut self) {
        self.now += 1;
        if self.now.is_multiple_of(STAYS) {
            let oldest = self.now - STAYS;
            self.stripped.retain(|_, kept| kept.used >= oldest);
            self.tables.retain(|_, kept| {
                kept.retain(|kept| kept.used >= oldest);
                !kept.is_empty()
            });
        }
    }

    /// Lays what was laid before; says whether it could.
    pub(super) fn again(
        &mut self,
        over: &mut Map,
        under: &Map,
        merge: bool,
        way: &dyn Fn() -> String,
        warn: Warn<'_>,
    ) -> bool {
        let Some(kept) = self.tables.get_mut(&(under.address(), merge)) else { return false };
        let tells_so = |kept: &Kept| kept.told.as_ref().is_none_or(|(place, _)| *place == way());
        let holds = |kept: &&mut Kept| kept.over.is_alike(over) && tells_so(kept);
        let Some(kept) = kept.iter_mut().find(holds) else { return false };
        debug_assert!(kept.under.same(under), "an address is held by its table");
        if let Some((_, told)) = &kept.told {
            told.iter().cloned().for_each(warn);
        }
        kept.used = self.now;
        over.clone_from(&kept.gives);
        true
    }

    /// Keeps what laying `over` over `under` gave.
    pub(super) fn keep(
        &mut self,
        over: Map,
        under: &Map,
        merge: bool,
        gives: &Map,
        told: Option<(String, Vec<String>)>,
    ) {
        let all = self.tables.entry((under.address(), merge)).or_default();
        if all.len() == KEPT {
            all.remove(0);
        }
        let (under, gives) = (under.clone(), gives.clone());
        all.push(Kept { over, under, gives, told, used: self.now });
    }

    /// A table without its nulls; the same one each time.
    pub(super) fn strip(&mut self, table: &mut Map, strip: impl FnOnce(&mut Map)) {
        let kept = self.stripped.entry(table.address()).or_insert_with(|| {
            let mut to = table.clone();
            strip(&mut to);
            Stripped { from: table.clone(), to, used: 0 }
        });
        debug_assert!(kept.from.same(table), "an address is held by its table");
        kept.used = self.now;
        table.clone_from(&kept.to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Chart, File, coalesce_again, load_files, process_again, read_values};
    use super::*;
    use crate::data::Data;
    use crate::profile::Profile;

    const FILES: [(&str, &str); 4] = [
        (
            "Chart.yaml",
            "{apiVersion: v2, name: top, version: 1.0.0, dependencies: [
              {name: sub, version: 1.0.0, alias: one, condition: one.on, import-values: [{child: out, parent: got}]},
              {name: sub, version: 1.0.0, alias: two, condition: two.on}]}",
        ),
        (
            "values.yaml",
            "{global: {g: {a: 1, b: {c: 2}}}, own: {x: {y: {z: 1, none: null}}, t: {k: v}}, got: {m: 1},
              one: {in: {p: 5, q: {r: null}}}, two: {in: {p: 6}}}",
        ),
        ("charts/sub/Chart.yaml", "{apiVersion: v2, name: sub, version: 1.0.0}"),
        (
            "charts/sub/values.yaml",
            "{on: true, in: {p: 1, q: {r: 1, s: {t: -0.0}}, tab: {u: 1}}, out: {m: 2, n: {o: 3}}, global: {g: {d: 4}}}",
        ),
    ];

    /// Values of a chart and what is warned of, for a user's values.
    fn values(
        chart: &Chart,
        user: &Map,
        profile: Profile,
        mut laid: Option<&mut Laid>,
    ) -> (Map, Vec<String>) {
        let (mut chart, mut told) = (chart.clone(), Vec::new());
        if let Some(laid) = &mut laid {
            laid.begin();
        }
        process_again(&mut chart, user, profile, laid.as_deref_mut(), &mut |w| told.push(w)).unwrap();
        let values = coalesce_again(&chart, user, profile, laid, &mut |w| told.push(w)).unwrap();
        (values, told)
    }

    #[test]
    fn what_is_kept_is_what_laying_gives_and_warns_of() {
        let users = [
            "{}",
            "{own: {x: {y: {z: 2}}}}",
            "{own: {x: {y: 3}}, one: {in: {tab: no}}, two: {in: {tab: no}}}",
            "{one: {in: {q: null, p: -0.0}}, two: {in: {q: {s: {t: 0.0}}}}}",
            "{one: {in: {q: null, p: 0.0}}, two: {in: {q: {s: {t: -0.0}}}}}",
            "{one: {on: false}, global: {g: {b: {c: 7}}}}",
            "{two: {on: false, in: {p: {}}}, global: {g: {d: null}}, own: {t: null}}",
        ];
        for profile in [Profile::Helm4, Profile::Helm3] {
            let files = FILES.map(|(name, text)| File::new(name.to_owned(), text.as_bytes().to_vec()));
            let chart = load_files(files.to_vec(), profile, &mut drop).unwrap();
            let (mut laid, mut warned) = (Laid::default(), 0);
            for round in 0..3 * STAYS {
                for user in users.iter().skip(usize::try_from(round % 3).unwrap()) {
                    let user = read_values(user.as_bytes(), profile).unwrap();
                    let (want, told) = values(&chart, &user, profile, None);
                    let got = values(&chart, &user, profile, Some(&mut laid));
                    assert_eq!(got.1, told, "{user:?}");
                    assert!(got.0.is_alike(&want), "{user:?}: {:?} instead of {want:?}", got.0);
                    warned += told.len();
                }
            }
            assert!(warned > 0, "something is to be warned of");
        }
    }

    #[test]
    fn the_same_values_are_laid_once_and_forgotten_when_nobody_asks_any_more() {
        let files = FILES.map(|(name, text)| File::new(name.to_owned(), text.as_bytes().to_vec()));
        let chart = load_files(files.to_vec(), Profile::Helm4, &mut drop).unwrap();
        let mut laid = Laid::default();
        let mut own = |text: &str| {
            let user = read_values(text.as_bytes(), Profile::Helm4).unwrap();
            let mut all = values(&chart, &user, Profile::Helm4, Some(&mut laid)).0;
            let Some(Data::Map(own)) = all.remove("own") else { panic!("{all:?}") };
            (own, laid.tables.values().map(Vec::len).sum::<usize>())
        };
        let edited = "{own: {x: {y: {z: 2}}}}";
        let (first, kept) = own(edited);
        let (second, still) = own(edited);
        assert!(first.same(&second));
        assert!(kept == still && kept > 0);
        let plain: Vec<usize> = (0..3 * STAYS).map(|_| own("{}").1).collect();
        assert!(plain.last() < plain.first(), "{plain:?}");
    }
}
