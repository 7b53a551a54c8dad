//! Directories for their owner only, at paths that others may know: what is in them is trusted.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Makes a directory, with those above it, and returns its path without symbolic links. One that exists is taken from all other users.
///
/// # Errors
/// It cannot be made, or is another user's.
pub fn create(path: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(path)?;
    // Whoever made a link decides where it leads to.
    check_owner(&fs::symlink_metadata(path)?)?;
    let path = path.canonicalize()?;
    check_owner(&fs::metadata(&path)?)?;
    forbid_others(&path)?;
    Ok(path)
}

#[cfg(unix)]
fn check_owner(metadata: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    if metadata.uid() == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the directory belongs to another user"))
}

#[cfg(unix)]
fn forbid_others(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn check_owner(_: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
fn forbid_others(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_is_for_its_owner_or_refused() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("a/b");
        for mode in [0o777, 0o700] {
            let made = create(&path).unwrap();
            assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        // A directory of root, or, for root, one of a user that there need not be.
        let other = base.path().join("other");
        let foreign = match rustix::process::geteuid().is_root() {
            false => Path::new("/"),
            true => {
                fs::create_dir(&other).unwrap();
                std::os::unix::fs::chown(&other, Some(12345), None).unwrap();
                &other
            }
        };
        let link = base.path().join("link");
        std::os::unix::fs::symlink(foreign, &link).unwrap();
        for path in [foreign, &link] {
            assert_eq!(create(path).unwrap_err().to_string(), "the directory belongs to another user");
        }
    }
}
