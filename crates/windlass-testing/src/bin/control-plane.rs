//! The control plane for people: keeps one running, runs a command on one, or only builds the tools.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use windlass_testing::{ControlPlane, Tool};

const USAGE: &str = "\
Usage: control-plane                      start a cluster; Ctrl-C takes it away
       control-plane run -- CMD [ARG...]  start a cluster, run CMD on it, take it away
       control-plane tools [TOOL...]      only build the tools, or some of them, and print where they are
       control-plane tools cluster        only build what a cluster consists of

CMD gets KUBECONFIG, and on its PATH `helm` (version 4), `helm3` and `kubectl`. A Helm is built when it is first called.
WINDLASS_TEST_KUBECONFIG  a cluster to run CMD on instead of starting one
WINDLASS_TOOLS_CACHE  where built tools are kept (default: .cache/tools of the workspace)
KUBEBUILDER_ASSETS    binaries of etcd, kube-apiserver and kubectl that are used instead of building them
";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(|word| word.to_str().unwrap_or_default()).collect();
    let result = match *words {
        [] => serve(),
        ["tools", ref names @ ..] => print_tools(names),
        ["run", "--", _, ..] => run(&arguments[2], &arguments[3..]),
        ["-h" | "--help"] => print(USAGE),
        _ => {
            report(USAGE);
            return ExitCode::from(2);
        }
    };
    result.unwrap_or_else(|error| {
        report(&format!("control-plane: {}\n", chain(&*error)));
        ExitCode::FAILURE
    })
}

type Outcome = Result<ExitCode, Box<dyn Error>>;

fn print_tools(names: &[&str]) -> Outcome {
    let mut lines = String::new();
    let of_cluster = names == ["cluster"];
    let wanted = |tool: &Tool| {
        names.is_empty() && !Tool::ON_REQUEST.contains(tool)
            || of_cluster && Tool::OF_CLUSTER.contains(tool)
            || names.contains(&&*format!("{tool:?}"))
    };
    for tool in Tool::ALL.into_iter().filter(wanted) {
        lines += &format!("{tool:?}={}\n", tool.path()?.display());
    }
    print(&lines)
}

fn serve() -> Outcome {
    let cluster = ControlPlane::start()?;
    let bin = cluster.bin_directory(&env::current_exe()?)?;
    // From here on a signal is ours to handle; before, it ends us and the guard cleans up.
    let mut signals = SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM])?;
    print(&format!(
        "KUBECONFIG={}\nkubectl={bin}/kubectl\nhelm={bin}/helm\nhelm3={bin}/helm3\nUntil Ctrl-C; for a shell that uses it:\n  \
         export KUBECONFIG={0} PATH={bin}:\"$PATH\"\n",
        cluster.kubeconfig().display(),
        bin = bin.display()
    ))?;
    signals.forever().next();
    drop(cluster);
    Ok(ExitCode::SUCCESS)
}

fn run(program: &OsString, arguments: &[OsString]) -> Outcome {
    let cluster = ControlPlane::of_environment()?;
    let home = cluster.directory().join("home").join("helm");
    let mut path = OsString::from(cluster.bin_directory(&env::current_exe()?)?);
    if let Some(rest) = env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }

    let mut signals = SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM])?;
    let handle = signals.handle();
    let mut child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig())
        .env("PATH", path)
        .env("HELM_CACHE_HOME", home.join("cache"))
        .env("HELM_CONFIG_HOME", home.join("config"))
        .env("HELM_DATA_HOME", home.join("data"))
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let pid = Pid::from_child(&child);
    let forwarder = thread::spawn(move || {
        for origin in &mut signals {
            // The terminal's Ctrl-C went to the command as well; a second one would make it hurry.
            if matches!(origin.cause, Cause::Kernel) {
                continue;
            }
            let signal = if origin.signal == SIGINT { Signal::INT } else { Signal::TERM };
            // It fails only when the command has just ended.
            if kill_process(pid, signal).is_err() {
                break;
            }
        }
    });
    let status = child.wait();
    handle.close();
    drop(forwarder.join());
    drop(cluster);
    Ok(exit_code(status?))
}

/// The command's own, as a shell gives it: 128 and the number for a signal.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn report(text: &str) {
    // A closed standard error is no reason to fail.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
