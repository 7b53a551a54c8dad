//! Builds without a feature say which one is missing.

use super::support::User;

#[test]
fn a_bucket_that_this_build_does_not_have_names_its_feature() {
    let user = User::new();
    for (url, feature, there) in [
        ("s3://charts/web.tgz", "s3", cfg!(feature = "s3")),
        ("gs://charts/web.tgz", "gcs", cfg!(feature = "gcs")),
    ] {
        let error = user.fails(&["show", "chart", url, "--offline"]);
        assert_eq!(error.contains(&format!("without the feature \"{feature}\"")), !there, "{error}");
        assert_eq!(error.contains("offline mode forbids"), there, "{error}");
    }
}
