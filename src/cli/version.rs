//! `windlass version`: the version of the Helm to be compatible with, which Helm's users parse, and ours beside it.

use chart_compat::data::{Data, Map};
use chart_compat::render::Capabilities;

use super::flags::Globals;
use super::{Failure, go_template, print};

/// Flags of `version`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Print the version number
    #[arg(long)]
    short: bool,
    /// Template for version string format; the fields are those of the long form
    #[arg(long, default_value = "", hide_default_value = true)]
    template: String,
    /// Taken as Helm 3 takes it: there is nothing but a client
    #[arg(short, long, hide = true)]
    client: bool,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    const OWN: &str = concat!("v", env!("CARGO_PKG_VERSION"));
    let helm = globals.profile().helm_version();
    if args.short && args.template.is_empty() {
        return print(format!("{helm}\n").as_bytes());
    }
    // In the order of Helm's fields, then ours. There is no Go version.
    let kube = Capabilities::default().kube_version;
    let fields = [
        ("Version", helm.to_owned()),
        ("GitCommit", String::new()),
        ("GitTreeState", String::new()),
        ("GoVersion", String::new()),
        ("KubeClientVersion", format!("v{}.{}", kube.major, kube.minor)),
        ("WindlassVersion", OWN.to_owned()),
    ];
    if args.template.is_empty() {
        let fields = fields.map(|(name, value)| format!("{name}:{value:?}"));
        return print(format!("version.BuildInfo{{{}}}\n", fields.join(", ")).as_bytes());
    }
    let map: Map = fields.map(|(name, value)| (name.to_owned(), Data::String(value))).into_iter().collect();
    print(&go_template::run(&args.template, &Data::Map(map))?)
}
